// What Kafka's record classes write and read: message sets of magic 0 and 1, record batches of magic 2, every codec, control
// batches, and damaged or cut bytes. For Kafka 4.4, whose record classes stand in ...record.internal.
//
//     RecordsOracle SEED OUT.jsonl.gz

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.CloseableIterator;

import java.io.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.zip.GZIPOutputStream;

public class RecordsOracle {
    static final ObjectMapper JSON = new ObjectMapper();
    static final JsonNodeFactory F = JsonNodeFactory.instance;
    static final char[] HX = "0123456789abcdef".toCharArray();

    static String hex(byte[] b) {
        char[] c = new char[b.length * 2];
        for (int i = 0; i < b.length; i++) { c[2 * i] = HX[(b[i] >> 4) & 15]; c[2 * i + 1] = HX[b[i] & 15]; }
        return new String(c);
    }
    static byte[] take(ByteBuffer b) { ByteBuffer d = b.duplicate(); byte[] x = new byte[d.remaining()]; d.get(x); return x; }
    static byte[] bytes(SplittableRandom r, int n) { byte[] b = new byte[n]; for (int i = 0; i < n; i++) b[i] = (byte) r.nextInt(256); return b; }

    /** Kafka's reading of the bytes, batch by batch; "error" ends the list where Kafka throws. */
    static ObjectNode read(byte[] x) {
        ObjectNode out = F.objectNode();
        ArrayNode batches = out.putArray("batches");
        int used = 0;
        try {
            MemoryRecords m = MemoryRecords.readableRecords(ByteBuffer.wrap(x));
            for (MutableRecordBatch b : m.batches()) {
                ObjectNode o = F.objectNode();
                o.put("magic", b.magic()).put("baseOffset", b.baseOffset()).put("lastOffset", b.lastOffset());
                o.put("size", b.sizeInBytes()).put("codec", b.compressionType().name).put("valid", b.isValid());
                o.put("timestampType", b.timestampType().name).put("maxTimestamp", b.maxTimestamp());
                if (b.magic() == 2) {
                    o.put("producerId", b.producerId()).put("producerEpoch", b.producerEpoch());
                    o.put("baseSequence", b.baseSequence()).put("lastSequence", b.lastSequence());
                    o.put("transactional", b.isTransactional()).put("control", b.isControlBatch());
                    o.put("leaderEpoch", b.partitionLeaderEpoch());
                    o.put("crc", b.checksum()).put("count", b.countOrNull());
                    if (b.deleteHorizonMs().isPresent()) o.put("deleteHorizonMs", b.deleteHorizonMs().getAsLong());
                }
                batches.add(o);
                b.ensureValid();
                ArrayNode recs = o.putArray("records");
                try (CloseableIterator<org.apache.kafka.common.record.internal.Record> it = b.streamingIterator(BufferSupplier.NO_CACHING)) {
                    while (it.hasNext()) {
                        org.apache.kafka.common.record.internal.Record q = it.next();
                        q.ensureValid();
                        ObjectNode e = F.objectNode().put("offset", q.offset()).put("timestamp", q.timestamp());
                        if (b.magic() == 2) e.put("sequence", q.sequence());
                        if (q.hasKey()) e.put("key", take(q.key())); else e.putNull("key");
                        if (q.hasValue()) e.put("value", take(q.value())); else e.putNull("value");
                        if (q.headers().length > 0) {
                            ArrayNode hs = e.putArray("headers");
                            for (Header h : q.headers()) {
                                ArrayNode p = hs.addArray().add(h.key());
                                if (h.value() == null) p.addNull(); else p.add(h.value());
                            }
                        }
                        recs.add(e);
                    }
                }
                used += b.sizeInBytes();
            }
            out.put("used", used).put("left", x.length - used);
        } catch (Throwable e) {
            out.put("used", used).put("error", e.getClass().getSimpleName());
        }
        return out;
    }

    static long n = 0;
    static final TreeMap<String, Integer> kinds = new TreeMap<>();
    static void emit(PrintWriter w, String kind, byte[] x, boolean canonical) throws Exception {
        ObjectNode o = F.objectNode().put("kind", kind).put("canonical", canonical).put("hex", hex(x));
        ObjectNode got = read(x);
        o.setAll(got);
        w.println(JSON.writeValueAsString(o));
        n++;
        kinds.merge(kind.split("/")[0] + (got.has("error") ? " -> error" : ""), 1, Integer::sum);
    }

    static void control(PrintWriter w, String type, MemoryRecords batch) throws Exception {
        emit(w, "control/" + type, take(batch.buffer()), true);
    }

    static Header[] headers(SplittableRandom r) {
        Header[] h = new Header[r.nextInt(4)];
        String[] names = {"a", "trace-id", "", "\u4e2d\u6587", "a"};
        for (int i = 0; i < h.length; i++)
            h[i] = new RecordHeader(names[r.nextInt(5)], switch (r.nextInt(4)) {
                case 0 -> null;
                case 1 -> new byte[0];
                default -> bytes(r, r.nextInt(20));
            });
        return h;
    }
    static byte[] payload(SplittableRandom r, boolean key) {
        return switch (r.nextInt(6)) {
            case 0 -> null;
            case 1 -> new byte[0];
            case 2 -> "x".repeat(r.nextInt(300)).getBytes(StandardCharsets.UTF_8);
            default -> bytes(r, r.nextInt(key ? 12 : 60));
        };
    }

    static MemoryRecords batch(SplittableRandom r, byte magic, CompressionType c, TimestampType tt, boolean pid, boolean txn,
            boolean gaps, int count, Long horizon) {
        long base = switch (r.nextInt(4)) {
            case 0 -> 0;
            case 1 -> r.nextInt(1000);
            case 2 -> Integer.MAX_VALUE + (long) r.nextInt(1000);
            default -> (1L << 40) + r.nextInt(1000);
        };
        long append = 1_700_000_000_000L + r.nextInt(1_000_000);
        var buf = new org.apache.kafka.common.utils.internals.ByteBufferOutputStream(1024);
        MemoryRecordsBuilder b = new MemoryRecordsBuilder(buf, magic, Compression.of(c).build(), tt, base,
            tt == TimestampType.LOG_APPEND_TIME ? append : RecordBatch.NO_TIMESTAMP,
            pid ? r.nextLong(1, 1L << 40) : RecordBatch.NO_PRODUCER_ID,
            pid ? (short) r.nextInt(100) : RecordBatch.NO_PRODUCER_EPOCH,
            pid ? (r.nextInt(3) == 0 ? Integer.MAX_VALUE - 1 : r.nextInt(1000)) : RecordBatch.NO_SEQUENCE, txn, false,
            magic == 2 ? r.nextInt(-1, 50) : RecordBatch.NO_PARTITION_LEADER_EPOCH, Integer.MAX_VALUE,
            horizon == null ? RecordBatch.NO_TIMESTAMP : horizon);
        long off = base, ts = 1_600_000_000_000L + r.nextInt(1_000_000);
        for (int i = 0; i < count; i++) {
            long t = magic == 0 ? RecordBatch.NO_TIMESTAMP : ts + r.nextInt(-5000, 5000);
            if (magic == 2) b.appendWithOffset(off, t, payload(r, true), payload(r, false), headers(r));
            else b.appendWithOffset(off, t, payload(r, true), payload(r, false));
            off += gaps ? 1 + r.nextInt(5) : 1;
        }
        return b.build();
    }

    static void damage(byte[] x, int p, SplittableRandom r) {
        x[p] = switch (r.nextInt(3)) {
            case 0 -> (byte) 0xff;
            case 1 -> (byte) (x[p] ^ (1 << r.nextInt(8)));
            default -> (byte) r.nextInt(256);
        };
    }

    public static void main(String[] a) throws Exception {
        long seed = Long.parseLong(a[0]);
        int reps = 3;
        SplittableRandom r = new SplittableRandom(seed * 0x9E3779B97F4A7C15L + 17);
        List<byte[]> pool = new ArrayList<>();
        try (PrintWriter w = new PrintWriter(new OutputStreamWriter(new GZIPOutputStream(new FileOutputStream(a[1])), StandardCharsets.UTF_8))) {
            for (byte magic = 0; magic <= 2; magic++) for (CompressionType c : CompressionType.values()) {
                if (magic < 2 && c == CompressionType.ZSTD) continue;
                List<TimestampType> stamps = magic == 0 ? List.of(TimestampType.NO_TIMESTAMP_TYPE)
                    : List.of(TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME);
                for (TimestampType tt : stamps)
                    for (int i = 0; i < reps; i++) for (boolean gaps : magic < 2 ? new boolean[]{false} : new boolean[]{false, true}) {
                        boolean pid = magic == 2 && r.nextBoolean(), txn = pid && r.nextBoolean();
                        int count = i == 0 ? 1 : i == 1 ? 200 : r.nextInt(2, 12);
                        Long horizon = magic == 2 && r.nextInt(4) == 0 ? 1_750_000_000_000L : null;
                        byte[] x = take(batch(r, magic, c, tt, pid, txn, gaps, count, horizon).buffer());
                        String more = (gaps ? "/gaps" : "") + (pid ? "/pid" : "") + (txn ? "/txn" : "")
                            + (horizon != null ? "/horizon" : "");
                        emit(w, "magic" + magic + "/" + c.name + "/" + tt.name + more, x, c == CompressionType.NONE);
                        if (x.length < 2000) pool.add(x);
                    }
            }
            // control batches
            long at = 1_700_000_000_000L;
            for (ControlRecordType t : List.of(ControlRecordType.ABORT, ControlRecordType.COMMIT)) for (int i = 0; i < 2; i++)
                control(w, t.toString(), MemoryRecords.withEndTransactionMarker(r.nextInt(1000), at, r.nextInt(10),
                    r.nextInt(1, 9999), (short) r.nextInt(50), new EndTransactionMarker(t, r.nextInt(100))));
            LeaderChangeMessage leader = new LeaderChangeMessage().setLeaderId(1).setVoters(List.of(
                new LeaderChangeMessage.Voter().setVoterId(1), new LeaderChangeMessage.Voter().setVoterId(2)));
            control(w, "LEADER_CHANGE", MemoryRecords.withLeaderChangeMessage(5, at, 3, ByteBuffer.allocate(512), leader));
            control(w, "SNAPSHOT_HEADER", MemoryRecords.withSnapshotHeaderRecord(0, at, 3, ByteBuffer.allocate(512),
                new SnapshotHeaderRecord().setLastContainedLogTimestamp(99)));
            control(w, "SNAPSHOT_FOOTER", MemoryRecords.withSnapshotFooterRecord(9, at, 3, ByteBuffer.allocate(512),
                new SnapshotFooterRecord()));
            control(w, "KRAFT_VERSION", MemoryRecords.withKRaftVersionRecord(9, at, 3, ByteBuffer.allocate(512),
                new KRaftVersionRecord().setKRaftVersion((short) 1)));
            control(w, "KRAFT_VOTERS", MemoryRecords.withVotersRecord(9, at, 3, ByteBuffer.allocate(512), new VotersRecord()));
            // a batch whose records compaction took away
            for (boolean txn : new boolean[]{false, true}) {
                ByteBuffer e = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
                DefaultRecordBatch.writeEmptyHeader(e, (byte) 2, 77, (short) 3, 10, 100, 109, 4, TimestampType.CREATE_TIME, at,
                    txn, false);
                emit(w, "empty", e.array(), true);
            }
            emit(w, "empty", new byte[0], true);
            // several batches in one answer, of mixed magic, and a cut last batch
            for (int i = 0; i < 10 * reps; i++) {
                ByteArrayOutputStream s = new ByteArrayOutputStream();
                int k = r.nextInt(1, 4);
                for (int q = 0; q < k; q++) s.write(pool.get(r.nextInt(pool.size())));
                byte[] last = pool.get(r.nextInt(pool.size()));
                byte[] whole = s.toByteArray();
                emit(w, "joined", whole, false);
                int cut = switch (i % 5) { case 0 -> 1; case 1 -> 11; case 2 -> 12; case 3 -> 16; default -> r.nextInt(1, last.length); };
                s.write(last, 0, Math.min(cut, last.length - 1));
                emit(w, "cut", s.toByteArray(), false);
            }
            // damaged bytes
            for (int i = 0; i < 60 * reps; i++) {
                byte[] x = pool.get(r.nextInt(pool.size())).clone();
                int p = i % 3 == 0 ? r.nextInt(Math.min(61, x.length)) : r.nextInt(x.length);
                damage(x, p, r);
                emit(w, "damaged", x, false);
            }
            // damaged bytes under a right CRC: what is inside must still be checked
            for (int i = 0; i < 60 * reps; i++) {
                byte[] x = pool.get(r.nextInt(pool.size())).clone();
                if (x[16] != 2) continue;
                int p = 21 + r.nextInt(x.length - 21);
                damage(x, p, r);
                java.util.zip.CRC32C crc = new java.util.zip.CRC32C();
                crc.update(x, 21, x.length - 21);
                ByteBuffer.wrap(x).putInt(17, (int) crc.getValue());
                emit(w, "damaged-crc-right", x, false);
            }
        }
        System.err.println("lines " + n + " " + kinds);
    }
}
