import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;
import java.util.function.ToIntFunction;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.CloseableIterator;

/**
 * Kafka's own classes, measured row by row as the driver in benches/python asks: the same lines and answers as
 * ottla-codec-bench. Usage: java -cp JARS CodecBench.java FOLDER
 */
public final class CodecBench {
    /** Does a row's work once, and says how much it was. */
    private interface Work {
        int run() throws Exception;
    }

    private record Plain(long timestamp, byte[] key, byte[] value) {}

    private static volatile int sink;

    private final Path folder;

    private CodecBench(Path folder) {
        this.folder = folder;
    }

    public static void main(String[] arguments) throws Exception {
        CodecBench bench = new CodecBench(Path.of(arguments[0]));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            Work work = bench.work(words[1]);
            System.out.println(words[0].equals("check") ? work.run() : nanoseconds(work, Long.parseLong(words[2])));
            System.out.flush();
        }
    }

    /** The best of many short stretches, as for the others. */
    private static double nanoseconds(Work work, long milliseconds) throws Exception {
        long end = System.nanoTime() + milliseconds * 1_000_000;
        long times = 1;
        double best = Double.POSITIVE_INFINITY;
        do {
            long start = System.nanoTime();
            for (long i = 0; i < times; i++) {
                sink = work.run();
            }
            long took = System.nanoTime() - start;
            if (took < 500_000) {
                times *= 2;
            } else {
                best = Math.min(best, (double) took / times);
            }
        } while (System.nanoTime() < end || best == Double.POSITIVE_INFINITY);
        return best;
    }

    private Work work(String row) throws Exception {
        String[] parts = row.split("/");
        String what = parts[0];
        boolean in = parts[1].equals("decode") || parts[1].equals("read");
        if (what.startsWith("records-")) {
            String[] names = what.split("-");
            return in ? read(bytes(what)) : write(records(names[1]), compression(names[2]));
        }
        ByteBuffer bytes = bytes(what);
        return switch (what) {
            case "metadata" -> message(bytes, (short) 12, in, MetadataResponseData::new,
                m -> m.topics().stream().mapToInt(t -> t.partitions().size()).sum());
            case "fetch" -> message(bytes, (short) 16, in, FetchResponseData::new,
                m -> m.responses().stream().mapToInt(t -> t.partitions().size()).sum());
            case "produce" -> message(bytes, (short) 11, in, ProduceRequestData::new,
                m -> m.topicData().stream().mapToInt(t -> t.partitionData().size()).sum());
            case "api_versions" -> message(bytes, (short) 4, in, ApiVersionsResponseData::new, m -> m.apiKeys().size());
            case "join_group" -> message(bytes, (short) 9, in, JoinGroupResponseData::new, m -> m.members().size());
            default -> throw new IllegalArgumentException(row);
        };
    }

    private ByteBuffer bytes(String name) throws Exception {
        return ByteBuffer.wrap(Files.readAllBytes(folder.resolve(name + ".bin")));
    }

    private static <M extends Message> Work message(
            ByteBuffer bytes, short version, boolean in, BiFunction<Readable, Short, M> decode, ToIntFunction<M> count) {
        if (in) {
            return () -> count.applyAsInt(decode.apply(new ByteBufferAccessor(bytes.duplicate()), version));
        }
        M message = decode.apply(new ByteBufferAccessor(bytes.duplicate()), version);
        return () -> {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer out = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(out), cache, version);
            return out.position();
        };
    }

    private static Compression compression(String name) {
        return switch (name) {
            case "none" -> Compression.NONE;
            case "gzip" -> Compression.gzip().build();
            case "snappy" -> Compression.snappy().build();
            case "lz4" -> Compression.lz4().build();
            case "zstd" -> Compression.zstd().build();
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static Work read(ByteBuffer bytes) {
        BufferSupplier buffers = BufferSupplier.create();
        return () -> {
            int seen = 0;
            for (RecordBatch batch : MemoryRecords.readableRecords(bytes.duplicate()).batches()) {
                batch.ensureValid();
                try (CloseableIterator<Record> records = batch.streamingIterator(buffers)) {
                    while (records.hasNext()) {
                        seen += records.next().value().remaining();
                    }
                }
            }
            return seen;
        };
    }

    private List<Plain> records(String size) throws Exception {
        List<Plain> records = new ArrayList<>();
        for (Record record : MemoryRecords.readableRecords(bytes("records-" + size + "-none")).records()) {
            records.add(new Plain(record.timestamp(), array(record.key()), array(record.value())));
        }
        return records;
    }

    private static byte[] array(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private static Work write(List<Plain> records, Compression compression) {
        // A producer takes its buffers from a pool.
        ByteBuffer buffer = ByteBuffer.allocate(2 << 20);
        return () -> {
            buffer.clear();
            MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, compression, TimestampType.CREATE_TIME, 0);
            for (Plain record : records) {
                builder.append(record.timestamp, record.key, record.value);
            }
            return builder.build().sizeInBytes();
        };
    }
}
