// Avro's Java library reads values that others wrote, by a reader's schema.
//
//     AvroReader < LINES      a line is the writer's schema, the reader's and the value, each in base64, with spaces between
//
// For each line comes "read" and, in base64, the value as the library writes it by the reader's schema, or "refused" and why.

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

public class AvroReader {
    static byte[] read(Schema writer, Schema reader, byte[] value) throws IOException {
        BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(value, null);
        Object datum = new GenericDatumReader<Object>(writer, reader).read(null, decoder);
        if (!decoder.isEnd()) throw new IOException("bytes are left behind the value");
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(out, null);
        new GenericDatumWriter<Object>(reader).write(datum, encoder);
        return out.toByteArray();
    }

    static Schema schema(String base64) {
        return new Schema.Parser().parse(new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8));
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (PrintWriter out = new PrintWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] parts = line.split(" ", 3);
                try {
                    byte[] read = read(schema(parts[0]), schema(parts[1]), Base64.getDecoder().decode(parts[2]));
                    out.println("read " + Base64.getEncoder().encodeToString(read));
                } catch (RuntimeException | IOException e) {
                    out.println("refused " + String.valueOf(e).replaceAll("\\s+", " "));
                }
            }
        }
    }
}
