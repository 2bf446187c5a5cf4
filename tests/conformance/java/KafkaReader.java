// Kafka reads messages that others wrote.
//
//     KafkaReader < LINES      a line is "NAME VERSION HEX"; a line of JSON comes out for each
//
// The answer is {"json": ...} in the form of the corpus, with what Kafka's JsonConverter classes lose taken from the object:
// the bytes of records and unknown tagged fields. {"absent": true}: this release has no such message or version.
// {"error": ...}: Kafka does not read it, leaves bytes over, or writes other bytes itself.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.*;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.types.RawTaggedField;

import java.io.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;

public class KafkaReader {
    public static void main(String[] args) throws Exception {
        Map<String, SchemaOracle.Spec> specs = new HashMap<>();
        for (SchemaOracle.Spec spec : SchemaOracle.load()) specs.put(spec.name, spec);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (PrintWriter out = new PrintWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] parts = line.split(" ", 3);
                SchemaOracle.Spec spec = specs.get(parts[0]);
                int version = Integer.parseInt(parts[1]);
                ObjectNode answer = SchemaOracle.F.objectNode();
                if (spec == null || !spec.valid.has(version)) answer.put("absent", true);
                else read(spec, version, HexFormat.of().parseHex(parts[2]), answer);
                out.println(SchemaOracle.JSON.writeValueAsString(answer));
            }
        }
    }

    static void read(SchemaOracle.Spec spec, int version, byte[] bytes, ObjectNode answer) {
        try {
            SchemaOracle.Decoded decoded = SchemaOracle.decode(spec, bytes, version);
            ObjectNode json = SchemaOracle.toJson(spec, decoded.m(), version);
            complete(json, decoded.m(), spec.fields, version);
            byte[] again = SchemaOracle.encode(decoded.m(), version);
            if (decoded.left() > 0) answer.put("error", decoded.left() + " bytes left over");
            else if (!Arrays.equals(again, bytes)) answer.put("error", "written as " + HexFormat.of().formatHex(again));
            else answer.set("json", json);
        } catch (Throwable e) {
            answer.put("error", e.toString());
        }
    }

    /** Puts in what the JSON form lacks. */
    static void complete(ObjectNode json, Message message, List<SchemaOracle.Field> fields, int version) throws Exception {
        if (!message.unknownTaggedFields().isEmpty()) {
            ArrayNode unknown = json.putArray(SchemaOracle.UNKNOWN);
            for (RawTaggedField field : message.unknownTaggedFields())
                unknown.addObject().put("tag", field.tag()).put("hex", HexFormat.of().formatHex(field.data()));
        }
        for (SchemaOracle.Field field : fields) {
            JsonNode shown = json.get(field.key);
            if (shown == null || shown.isNull()) continue;
            Object value = message.getClass().getMethod(field.key).invoke(message);
            if (field.base.equals("records")) {
                ByteBuffer buffer = ((ByteBuffer) value.getClass().getMethod("buffer").invoke(value)).duplicate();
                byte[] bytes = new byte[buffer.remaining()];
                buffer.get(bytes);
                json.put(field.key, bytes);
            } else if (field.struct && field.array) {
                int i = 0;
                for (Object element : (Iterable<?>) value) complete((ObjectNode) shown.get(i++), (Message) element, field.fields, version);
            } else if (field.struct) {
                complete((ObjectNode) shown, (Message) value, field.fields, version);
            }
        }
    }
}
