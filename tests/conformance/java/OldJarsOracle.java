// What the client jars of Kafka 0.8.2 to 2.0 write, which describe their messages by Schema objects and not by JSON.
//
//     OldJarsOracle SCHEMAS SEED OUT.jsonl.gz RELEASE=LIBS...
//
// Every API and version of each release is filled with seeded random values by its Schema object, written, read back and
// written again; the lines have the form of SchemaOracle's. Types, order and what may be null are the old jar's. Only
// the names of the fields in the JSON come from SCHEMAS, by position; a name that both have must stand in the same place.
// A release has a class loader of its own, so one run reads them all.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.*;

import java.io.*;
import java.lang.reflect.*;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.stream.Stream;
import java.util.zip.GZIPOutputStream;

public class OldJarsOracle {
    static final ObjectMapper JSON = new ObjectMapper();
    static final JsonNodeFactory F = JsonNodeFactory.instance;

    /** A message of SCHEMAS at one version: its fields there, in order, with what stands inside them. */
    record Named(String name, String json, boolean nullable, boolean bool, boolean struct, List<Named> fields) { }

    enum Kind { MIN, FULL, RANDOM }

    public static void main(String[] args) throws Exception {
        Map<String, JsonNode> schemas = schemas(Path.of(args[0]));
        long seed = Long.parseLong(args[1]);
        try (PrintWriter out = new PrintWriter(new OutputStreamWriter(
                new GZIPOutputStream(new FileOutputStream(args[2])), StandardCharsets.UTF_8))) {
            for (String release : Arrays.copyOfRange(args, 3, args.length)) {
                String[] parts = release.split("=", 2);
                new Release(parts[0], Path.of(parts[1])).write(schemas, seed, out);
            }
        }
    }

    static Map<String, JsonNode> schemas(Path folder) throws IOException {
        Map<String, JsonNode> byName = new TreeMap<>();
        // The tables beside the folders are no schemas.
        try (Stream<Path> files = Files.walk(folder, 2)) {
            for (Path file : files.filter(f -> f.toString().endsWith(".json") && !f.getParent().equals(folder)).toList()) {
                JsonNode schema = JSON.readTree(file.toFile());
                byName.put(schema.get("name").asText(), schema);
            }
        }
        return byName;
    }

    static boolean in(JsonNode range, int version) {
        if (range == null || range.asText().equals("none")) return false;
        String text = range.asText();
        if (text.endsWith("+")) return version >= Integer.parseInt(text.substring(0, text.length() - 1));
        String[] ends = text.split("-");
        return Integer.parseInt(ends[0]) <= version && version <= Integer.parseInt(ends[ends.length - 1]);
    }

    static List<Named> fields(JsonNode fields, JsonNode common, int version) {
        List<Named> here = new ArrayList<>();
        for (JsonNode field : fields) {
            if (!in(field.get("versions"), version)) continue;
            String name = field.get("name").asText(), type = field.get("type").asText().replace("[]", "");
            boolean struct = Character.isUpperCase(type.charAt(0));
            JsonNode inner = field.get("fields");
            if (struct && inner == null)
                for (JsonNode one : common) if (one.get("name").asText().equals(type)) inner = one.get("fields");
            here.add(new Named(name, name.substring(0, 1).toLowerCase(Locale.ROOT) + name.substring(1),
                in(field.get("nullableVersions"), version), type.equals("bool"), struct, struct ? fields(inner, common, version) : List.of()));
        }
        return here;
    }

    /** One old jar, through reflection only: no class of it is on the class path. */
    static final class Release {
        final String version;
        final ClassLoader jars;
        final Class<?> schemaType, arrayType, structType;
        final Method write, sizeOf, read, set;
        final Map<Object, String> types = new IdentityHashMap<>();
        int pairs, lines;

        Release(String version, Path libs) throws Exception {
            this.version = version;
            List<URL> urls = new ArrayList<>();
            try (DirectoryStream<Path> found = Files.newDirectoryStream(libs, "*.jar")) {
                for (Path jar : found) urls.add(jar.toUri().toURL());
            }
            jars = new URLClassLoader(urls.toArray(URL[]::new), ClassLoader.getPlatformClassLoader());
            schemaType = type("protocol.types.Schema");
            arrayType = type("protocol.types.ArrayOf");
            structType = type("protocol.types.Struct");
            write = schemaType.getMethod("write", ByteBuffer.class, Object.class);
            sizeOf = schemaType.getMethod("sizeOf", Object.class);
            read = schemaType.getMethod("read", ByteBuffer.class);
            set = structType.getMethod("set", String.class, Object.class);
            Class<?> base = type("protocol.types.Type");
            for (Field constant : base.getFields())
                if (Modifier.isStatic(constant.getModifiers())) types.put(constant.get(null), constant.getName());
        }

        Class<?> type(String name) throws ClassNotFoundException {
            return jars.loadClass("org.apache.kafka.common." + name);
        }

        static Object constant(Class<?> of, String name) throws ReflectiveOperationException {
            Field field = of.getDeclaredField(name);
            field.setAccessible(true);
            return field.get(null);
        }

        void write(Map<String, JsonNode> schemas, long seed, PrintWriter out) throws Exception {
            boolean older = Stream.of(type("protocol.Protocol").getFields()).anyMatch(f -> f.getName().equals("REQUESTS"));
            for (Object api : type("protocol.ApiKeys").getEnumConstants()) {
                int key = (short) api.getClass().getField("id").get(api);
                for (String direction : List.of("request", "response")) {
                    Object[] versions;
                    if (older) {
                        Object[][] all = (Object[][]) constant(type("protocol.Protocol"), direction.toUpperCase(Locale.ROOT) + "S");
                        versions = key < all.length ? all[key] : null;
                    } else {
                        versions = (Object[]) api.getClass().getField(direction + "Schemas").get(api);
                    }
                    // 0.8.2 declares nothing for the APIs between brokers.
                    if (versions == null) continue;
                    JsonNode today = null;
                    for (JsonNode schema : schemas.values())
                        if (schema.path("apiKey").asInt(-1) == key && schema.get("type").asText().equals(direction)) today = schema;
                    if (key == 11 && version.startsWith("0.8.2"))
                        today = schemas.get("JoinGroup082" + (direction.equals("request") ? "Request" : "Response"));
                    for (int v = 0; v < versions.length; v++)
                        if (versions[v] != null) pair(today, v, versions[v], key, direction, seed, out);
                }
            }
            Class<?> request = older ? type("protocol.Protocol") : type("requests.RequestHeader");
            Class<?> response = older ? request : type("requests.ResponseHeader");
            pair(schemas.get("RequestHeader"), 1, constant(request, older ? "REQUEST_HEADER" : "SCHEMA"), null, "header", seed, out);
            pair(schemas.get("ResponseHeader"), 0, constant(response, older ? "RESPONSE_HEADER" : "SCHEMA"), null, "header", seed, out);
            if (!older)
                pair(schemas.get("RequestHeader"), 0, constant(request, "CONTROLLED_SHUTDOWN_V0_SCHEMA"), null, "header", seed, out);
            System.err.println(version + ": " + pairs + " pairs of message and version, " + lines + " lines");
        }

        /** Every kind of sample of one message at one version. */
        void pair(JsonNode today, int v, Object schema, Integer key, String direction, long seed, PrintWriter out) throws Exception {
            String name = today.get("name").asText();
            List<Named> fields = OldJarsOracle.fields(today.get("fields"), today.path("commonStructs"), v);
            int index = 0;
            for (Kind kind : List.of(Kind.MIN, Kind.FULL, Kind.RANDOM)) {
                Random random = new Random(seed * 31 + (version + name + v + kind).hashCode());
                ObjectNode json = F.objectNode();
                Object struct = struct(schema, fields, kind, random, 0, json, name);
                byte[] bytes = bytes(schema, struct);
                ByteBuffer back = ByteBuffer.wrap(bytes);
                Object again = read.invoke(schema, back);
                if (back.hasRemaining() || !Arrays.equals(bytes(schema, again), bytes))
                    throw new IllegalStateException(version + " " + name + " " + v + ": its own bytes do not come back");
                ObjectNode line = F.objectNode().put("src", "kafka-" + version).put("api", key).put("name", name)
                    .put("type", today.get("type").asText()).put("v", v).put("flex", false);
                // ControlledShutdown 0 alone has no client id in its header.
                if (!today.get("type").asText().equals("data") && key != null)
                    line.put("hv", direction.equals("request") && !(key == 7 && v == 0) ? 1 : 0);
                line.put("kind", kind.name().toLowerCase(Locale.ROOT)).put("i", index++);
                line.set("json", json);
                out.println(JSON.writeValueAsString(line.put("hex", HexFormat.of().formatHex(bytes))));
                lines++;
            }
            pairs++;
        }

        byte[] bytes(Object schema, Object struct) throws ReflectiveOperationException {
            ByteBuffer buffer = ByteBuffer.allocate((int) sizeOf.invoke(schema, struct));
            write.invoke(schema, buffer, struct);
            if (buffer.hasRemaining()) throw new IllegalStateException("sizeOf() is more than write() wrote");
            return buffer.array();
        }

        record Old(String name, Object type, boolean defaults) { }

        List<Old> fields(Object schema) throws ReflectiveOperationException {
            List<Old> all = new ArrayList<>();
            for (Object field : (Object[]) schemaType.getMethod("fields").invoke(schema)) {
                Object def = field;
                try {
                    def = field.getClass().getField("def").get(field);
                } catch (NoSuchFieldException e) {
                    // Before 1.1 the field itself has name and type.
                }
                Class<?> of = def.getClass();
                boolean older = Stream.of(of.getFields()).anyMatch(f -> f.getName().equals("NO_DEFAULT"));
                boolean defaults = older ? of.getField("defaultValue").get(def) != constant(of, "NO_DEFAULT")
                    : of.getField("hasDefaultValue").getBoolean(def);
                all.add(new Old((String) of.getField("name").get(def), of.getField("type").get(def), defaults));
            }
            return all;
        }

        /** How many fields of today a schema stands for: a struct that is no field today counts what is in it. */
        int width(Object schema, List<Named> named) throws ReflectiveOperationException {
            int width = 0;
            for (Old old : fields(schema)) width += flattened(old, named, width) ? width(old.type, List.of()) : 1;
            return width;
        }

        boolean flattened(Old old, List<Named> named, int place) {
            return schemaType.isInstance(old.type) && !(place < named.size() && named.get(place).struct());
        }

        Object struct(Object schema, List<Named> named, Kind kind, Random random, int depth, ObjectNode json, String path) throws Exception {
            if (width(schema, named) != named.size())
                throw new IllegalStateException(version + " " + path + ": " + fields(schema) + " is not " + named);
            Object struct = structType.getConstructor(schemaType).newInstance(schema);
            int place = 0;
            for (Old old : fields(schema)) {
                if (flattened(old, named, place)) {
                    int width = width(old.type, List.of());
                    set.invoke(struct, old.name, struct(old.type, named.subList(place, place + width), kind, random, depth, json, path));
                    place += width;
                    continue;
                }
                Named today = named.get(place++);
                String camel = camel(old.name);
                if (!camel.equals(today.json()) && named.stream().anyMatch(other -> other.json().equals(camel)))
                    throw new IllegalStateException(version + " " + path + ": " + old.name + " stands where " + today.json() + " is");
                set.invoke(struct, old.name, value(old, today, kind, random, depth, json, path + "." + today.json()));
            }
            return struct;
        }

        static String camel(String name) {
            StringBuilder camel = new StringBuilder();
            for (String word : name.split("_"))
                camel.append(camel.isEmpty() ? word : word.substring(0, 1).toUpperCase(Locale.ROOT) + word.substring(1));
            return camel.toString();
        }

        Object value(Old old, Named today, Kind kind, Random random, int depth, ObjectNode json, String path) throws Exception {
            Object type = old.type;
            boolean array = arrayType.isInstance(type);
            // Where the field has a default, null stands for it.
            if (today.nullable() && nullable(type) && !old.defaults && (kind == Kind.RANDOM && random.nextInt(4) == 0 || kind == Kind.MIN)) {
                json.putNull(today.json());
                return null;
            }
            if (!array) {
                List<JsonNode> shown = new ArrayList<>();
                Object value = one(type, today, kind, random, depth, shown, path);
                json.set(today.json(), shown.get(0));
                return value;
            }
            Object element = arrayType.getMethod("type").invoke(type);
            int count = switch (kind) { case MIN -> 0; case FULL -> depth < 2 ? 2 : 1; case RANDOM -> random.nextInt(4 - Math.min(depth, 2)); };
            List<JsonNode> shown = new ArrayList<>();
            Object[] values = new Object[count];
            for (int i = 0; i < count; i++) values[i] = one(element, today, kind, random, depth + 1, shown, path + "[" + i + "]");
            json.putArray(today.json()).addAll(shown);
            return values;
        }

        boolean nullable(Object type) throws ReflectiveOperationException {
            if (!arrayType.isInstance(type)) return types.getOrDefault(type, "").startsWith("NULLABLE_");
            try {
                return (boolean) arrayType.getMethod("isNullable").invoke(type);
            } catch (NoSuchMethodException e) {
                return false;
            }
        }

        Object one(Object type, Named today, Kind kind, Random random, int depth, List<JsonNode> shown, String path) throws Exception {
            if (schemaType.isInstance(type) && !today.struct()) {
                // A struct around one value, which is the value itself today.
                Old only = fields(type).get(0);
                Object struct = structType.getConstructor(schemaType).newInstance(type);
                return set.invoke(struct, only.name, one(only.type, today, kind, random, depth, shown, path));
            }
            if (today.struct() && !schemaType.isInstance(type)) {
                // A bare value, or an array in an array, which is a struct around it today.
                ObjectNode inner = F.objectNode();
                shown.add(inner);
                return value(new Old("", type, false), today.fields().get(0), kind, random, depth, inner, path);
            }
            if (schemaType.isInstance(type)) {
                ObjectNode inner = F.objectNode();
                shown.add(inner);
                return struct(type, today.fields(), kind, random, depth, inner, path);
            }
            long number = random.nextInt(3) == 0 ? random.nextInt(5) - 2 : random.nextLong();
            String name = types.getOrDefault(type, type.toString());
            switch (name) {
                case "BOOLEAN": {
                    boolean value = kind != Kind.MIN && random.nextBoolean();
                    shown.add(BooleanNode.valueOf(value));
                    return value;
                }
                case "INT8": {
                    // Booleans were bytes before 0.10.
                    byte value = (byte) (today.bool() ? number & 1 : kind == Kind.MIN ? Byte.MIN_VALUE : number);
                    shown.add(today.bool() ? BooleanNode.valueOf(value == 1) : IntNode.valueOf(value));
                    return value;
                }
                case "INT16": {
                    short value = kind == Kind.MIN ? Short.MIN_VALUE : (short) number;
                    shown.add(IntNode.valueOf(value));
                    return value;
                }
                case "INT32": {
                    int value = kind == Kind.MIN ? Integer.MIN_VALUE : (int) number;
                    shown.add(IntNode.valueOf(value));
                    return value;
                }
                case "INT64": {
                    long value = kind == Kind.MIN ? Long.MIN_VALUE : number;
                    shown.add(LongNode.valueOf(value));
                    return value;
                }
                case "STRING", "NULLABLE_STRING": {
                    StringBuilder text = new StringBuilder();
                    int length = kind == Kind.MIN ? 0 : random.nextInt(9);
                    while (text.codePointCount(0, text.length()) < length)
                        text.appendCodePoint("abcdefghij._-\u00e9\u4e2d\ud83d\ude80".codePoints().toArray()[random.nextInt(16)]);
                    shown.add(new TextNode(text.toString()));
                    return text.toString();
                }
                case "BYTES", "NULLABLE_BYTES", "RECORDS": {
                    byte[] value = new byte[kind == Kind.MIN ? 0 : random.nextInt(20)];
                    random.nextBytes(value);
                    shown.add(new BinaryNode(value));
                    ByteBuffer buffer = ByteBuffer.wrap(value);
                    return name.equals("RECORDS")
                        ? type("record.MemoryRecords").getMethod("readableRecords", ByteBuffer.class).invoke(null, buffer) : buffer;
                }
                default: throw new IllegalStateException(version + " " + path + ": the type " + name + " is new");
            }
        }
    }
}
