// What Kafka's generated message classes write and read, for every schema in the jars of the class path.
//
//     SchemaOracle LABEL SEED OUT.jsonl.gz [OTHER.jsonl.gz]      the pairs of message and version in OTHER are left out
//
// Seeded random JSON in the form of Kafka's own JsonConverter classes becomes an object by Kafka, and the object bytes. Kafka
// must read them back to the same JSON and the same bytes, and refuse their prefixes; then a line is written. What the
// lines mean stands in ../README.md. The generated classes are driven by reflection, so one source serves 2.8 to 4.4.

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.*;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.RawTaggedField;

import java.io.*;
import java.lang.reflect.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.jar.*;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;

public class SchemaOracle {
    static final ObjectMapper JSON = new ObjectMapper()
        .configure(JsonParser.Feature.ALLOW_COMMENTS, true)
        .configure(DeserializationFeature.FAIL_ON_TRAILING_TOKENS, false);
    static final JsonNodeFactory F = JsonNodeFactory.instance;
    static final String UNKNOWN = "_unknownTaggedFields";

    // ---------- version ranges ----------
    record Range(int lo, int hi) {
        boolean has(int v) { return lo <= v && v <= hi; }
        static final Range NONE = new Range(0, -1);
        static Range parse(JsonNode n, Range dflt) {
            if (n == null || n.isNull() || n.asText().trim().isEmpty()) return dflt;
            String s = n.asText().trim();
            if (s.equals("none")) return NONE;
            if (s.endsWith("+")) return new Range(Integer.parseInt(s.substring(0, s.length() - 1)), Short.MAX_VALUE);
            int d = s.indexOf('-');
            if (d < 0) return new Range(Integer.parseInt(s), Integer.parseInt(s));
            return new Range(Integer.parseInt(s.substring(0, d)), Integer.parseInt(s.substring(d + 1)));
        }
    }

    // ---------- schemas ----------
    static class Field {
        String name, key, base, dflt;
        boolean array, struct, ignorable;
        Range versions, nullable, tagged;
        int tag = -1;
        List<Field> fields;
        boolean at(int v) { return versions.has(v); }
        boolean taggedAt(int v) { return tagged.has(v); }
        boolean nullableAt(int v) { return nullable.has(v); }
    }

    static class Spec {
        String name, type, cls, pkg, module;
        Integer apiKey;
        Range valid, flexible;
        boolean unstable;
        List<Field> fields;
        Class<?> data, conv;
        Method read, write;
        boolean flexAt(int v) { return flexible.has(v); }
    }

    static String lowerFirst(String s) { return s.substring(0, 1).toLowerCase(Locale.ROOT) + s.substring(1); }

    static List<Field> fields(JsonNode arr, Map<String, JsonNode> common) {
        List<Field> out = new ArrayList<>();
        if (arr == null) return out;
        for (JsonNode n : arr) {
            Field f = new Field();
            f.name = n.get("name").asText();
            f.key = lowerFirst(f.name);
            String t = n.get("type").asText().trim();
            f.array = t.startsWith("[]");
            f.base = f.array ? t.substring(2) : t;
            f.struct = Character.isUpperCase(f.base.charAt(0));
            f.tagged = Range.parse(n.get("taggedVersions"), Range.NONE);
            f.versions = Range.parse(n.get("versions"), f.tagged);
            f.nullable = Range.parse(n.get("nullableVersions"), Range.NONE);
            f.ignorable = n.has("ignorable") && n.get("ignorable").asBoolean();
            f.dflt = n.has("default") ? n.get("default").asText() : "";
            if (n.has("tag")) f.tag = n.get("tag").asInt();
            if (f.struct) {
                JsonNode sub = n.get("fields");
                if ((sub == null || sub.isEmpty()) && common.containsKey(f.base)) sub = common.get(f.base).get("fields");
                f.fields = fields(sub, common);
            }
            out.add(f);
        }
        return out;
    }

    static List<Spec> load() throws Exception {
        List<Spec> out = new ArrayList<>();
        for (String cp : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (!cp.endsWith(".jar") || !new File(cp).getName().startsWith("kafka")) continue;
            try (JarFile jar = new JarFile(cp)) {
                Map<String, String> convs = new HashMap<>();
                List<JarEntry> schemas = new ArrayList<>();
                for (Enumeration<JarEntry> e = jar.entries(); e.hasMoreElements(); ) {
                    JarEntry x = e.nextElement();
                    String n = x.getName();
                    if (n.endsWith("JsonConverter.class") && !n.contains("$"))
                        convs.put(n.substring(n.lastIndexOf('/') + 1, n.length() - ".class".length()),
                            n.substring(0, n.lastIndexOf('/')).replace('/', '.'));
                    if (n.endsWith(".json") && (n.contains("message/") || n.contains("metadata/"))) schemas.add(x);
                }
                for (JarEntry x : schemas) {
                    JsonNode j = JSON.readTree(new InputStreamReader(jar.getInputStream(x), StandardCharsets.UTF_8));
                    Spec s = new Spec();
                    s.module = new File(cp).getName().replaceAll("-\\d.*", "");
                    s.name = j.get("name").asText();
                    s.type = j.get("type").asText();
                    s.apiKey = j.has("apiKey") ? j.get("apiKey").asInt() : null;
                    s.valid = Range.parse(j.get("validVersions"), Range.NONE);
                    s.flexible = Range.parse(j.get("flexibleVersions"), Range.NONE);
                    s.unstable = j.has("latestVersionUnstable") && j.get("latestVersionUnstable").asBoolean();
                    if (s.valid.hi() < s.valid.lo()) { System.err.println("no valid version: " + s.name); continue; }
                    Map<String, JsonNode> common = new HashMap<>();
                    if (j.has("commonStructs")) for (JsonNode c : j.get("commonStructs")) common.put(c.get("name").asText(), c);
                    s.fields = fields(j.get("fields"), common);
                    s.cls = switch (s.type) { case "request", "response", "header" -> s.name + "Data"; default -> s.name; };
                    s.pkg = convs.get(s.cls + "JsonConverter");
                    if (s.pkg == null) { System.err.println("no converter for " + s.name + " in " + s.module); continue; }
                    s.data = Class.forName(s.pkg + "." + s.cls);
                    s.conv = Class.forName(s.pkg + "." + s.cls + "JsonConverter");
                    s.read = s.conv.getMethod("read", JsonNode.class, short.class);
                    s.write = s.conv.getMethod("write", s.data, short.class, boolean.class);
                    out.add(s);
                }
            }
        }
        out.sort(Comparator.comparing((Spec s) -> s.module).thenComparing(s -> s.name));
        return out;
    }

    // ---------- deterministic randomness ----------
    static SplittableRandom rng(long seed, String label) {
        long h = 0xcbf29ce484222325L;
        for (byte b : label.getBytes(StandardCharsets.UTF_8)) { h ^= b & 0xff; h *= 0x100000001b3L; }
        return new SplittableRandom(h ^ (seed * 0x9E3779B97F4A7C15L));
    }

    static final String[] ALPHABETS = {
        "abcdefghijklmnopqrstuvwxyz0123456789._-",
        "\u00e4\u00f6\u00fc\u00df\u00e9\u0394\u03a9",
        "\u4e2d\u6587\u5361\u592b\u5361",
        "\ud83d\ude80\ud83c\udf89\ud83d\udc0d",
        " \t\n\"\\\u0000\u007f/<>",
    };

    static String str(SplittableRandom r, int len) {
        StringBuilder b = new StringBuilder();
        while (b.codePointCount(0, b.length()) < len) {
            int p = r.nextInt(10);
            String a = ALPHABETS[p < 6 ? 0 : p - 5];
            int[] cps = a.codePoints().toArray();
            b.appendCodePoint(cps[r.nextInt(cps.length)]);
        }
        return b.toString();
    }

    static byte[] bytes(SplittableRandom r, int len) {
        byte[] b = new byte[len];
        for (int i = 0; i < len; i++) b[i] = (byte) r.nextInt(256);
        return b;
    }

    // ---------- generating JSON ----------
    enum Kind { DEFAULT, NULLS, MIN, MAX, FULL, RANDOM, TAGS, LONG, ONE }

    static JsonNode num(String base, long x) {
        return switch (base) {
            case "int8" -> new ShortNode((byte) x);
            case "int16" -> new ShortNode((short) x);
            case "uint16" -> new IntNode((int) (x & 0xffff));
            case "int32" -> new IntNode((int) x);
            case "uint32" -> new LongNode(x & 0xffffffffL);
            default -> new LongNode(x);
        };
    }

    static JsonNode scalar(Field f, Kind k, SplittableRandom r) {
        boolean isMin = k == Kind.MIN, isMax = k == Kind.MAX;
        switch (f.base) {
            case "bool": return BooleanNode.valueOf(isMin ? false : isMax || r.nextBoolean());
            case "int8": case "int16": case "uint16": case "int32": case "uint32": case "int64": {
                int bits = switch (f.base) { case "int8" -> 8; case "int16", "uint16" -> 16; case "int32", "uint32" -> 32; default -> 64; };
                boolean un = f.base.startsWith("u");
                if (isMin) return num(f.base, un ? 0 : -1L << (bits - 1));
                if (isMax) return num(f.base, un ? (1L << bits) - 1 : (1L << (bits - 1)) - 1);
                return num(f.base, switch (r.nextInt(4)) { case 0 -> r.nextInt(-2, 3); case 1 -> r.nextInt(0, 1000); default -> r.nextLong(); });
            }
            case "float64":
                if (isMin || isMax) return new DoubleNode(isMin ? -Double.MAX_VALUE : Double.MAX_VALUE);
                return new DoubleNode(r.nextInt(4) == 0 ? Double.MIN_VALUE : (r.nextDouble() - 0.5) * Math.pow(10, r.nextInt(-20, 20)));
            case "uuid": {
                byte[] b = isMin ? new byte[16] : bytes(r, 16);
                if (isMax) Arrays.fill(b, (byte) 0xff);
                return new TextNode(Base64.getUrlEncoder().withoutPadding().encodeToString(b));
            }
            case "string":
                if (isMin) return new TextNode("");
                if (k == Kind.LONG) {
                    String letter = String.valueOf((char) ('a' + r.nextInt(26)));
                    return new TextNode(letter.repeat(new int[]{126, 127, 128, 200}[r.nextInt(4)]));
                }
                return new TextNode(str(r, isMax ? 24 : r.nextInt(0, 12)));
            case "bytes": case "records":
                if (isMin) return new BinaryNode(new byte[0]);
                if (k == Kind.LONG) {
                    byte[] b = new byte[r.nextInt(12) == 0 ? r.nextInt(16382, 16386) : r.nextInt(126, 130)];
                    Arrays.fill(b, (byte) r.nextInt(256));
                    return new BinaryNode(b);
                }
                return new BinaryNode(bytes(r, r.nextInt(0, 24)));
            default: throw new IllegalStateException(f.base);
        }
    }

    static JsonNode dflt(Field f, int v) {
        if (f.dflt.equals("null")) return NullNode.instance;
        if (f.array) return F.arrayNode();
        if (f.struct) { ObjectNode o = F.objectNode(); for (Field g : f.fields) if (g.at(v) && !g.taggedAt(v)) o.set(g.key, dflt(g, v)); return o; }
        switch (f.base) {
            case "bool": return BooleanNode.valueOf(f.dflt.equalsIgnoreCase("true"));
            case "string": return new TextNode(f.dflt);
            case "bytes": return new BinaryNode(new byte[0]);
            case "records": return f.nullableAt(v) ? NullNode.instance : new BinaryNode(new byte[0]);
            case "uuid": return new TextNode(f.dflt.isEmpty() ? "AAAAAAAAAAAAAAAAAAAAAA" : f.dflt);
            case "float64": return new DoubleNode(f.dflt.isEmpty() ? 0 : Double.parseDouble(f.dflt));
            default: return num(f.base, f.dflt.isEmpty() ? 0 : Long.decode(f.dflt));
        }
    }

    /** Some value of the field's type that differs from its default. */
    static JsonNode nonDefault(Field f, int v, SplittableRandom r) {
        JsonNode d = dflt(f, v);
        for (int i = 0; i < 200; i++) {
            JsonNode x = f.array ? value(f, v, Kind.ONE, r, 1) : scalar(f, Kind.RANDOM, r);
            if (!x.equals(d) && !(x.isNumber() && d.isNumber() && x.asText().equals(d.asText()))
                && !(f.array && x.isEmpty()) && !(x instanceof BinaryNode b && b.binaryValue().length == 0)) return x;
        }
        throw new IllegalStateException("no non-default value for " + f.name);
    }

    static JsonNode value(Field f, int v, Kind k, SplittableRandom r, int depth) {
        if (f.nullableAt(v)) {
            if (k == Kind.NULLS) return NullNode.instance;
            if ((k == Kind.RANDOM || k == Kind.TAGS) && r.nextInt(5) == 0) return NullNode.instance;
        }
        if (f.array) {
            ArrayNode a = F.arrayNode();
            int n = switch (k) {
                case MIN -> 0;
                case MAX, ONE -> 1;
                case NULLS -> 1;
                case FULL -> depth <= 2 ? 2 : 1;
                case LONG -> f.struct ? 1 : new int[]{1, 126, 127, 128}[r.nextInt(4)];
                default -> depth <= 1 ? r.nextInt(0, 4) : r.nextInt(0, 3);
            };
            Kind ek = k == Kind.LONG && n > 1 ? Kind.MIN : k;
            for (int i = 0; i < n; i++) a.add(f.struct ? struct(f.fields, v, k, r, depth + 1) : scalar(f, ek, r));
            return a;
        }
        if (f.struct) return struct(f.fields, v, k, r, depth + 1);
        return scalar(f, k, r);
    }

    static ObjectNode struct(List<Field> fields, int v, Kind k, SplittableRandom r, int depth) {
        ObjectNode o = F.objectNode();
        for (Field f : fields) {
            if (!f.at(v)) continue;
            if (f.taggedAt(v)) {
                boolean present = switch (k) {
                    case DEFAULT -> false;
                    case NULLS -> f.nullableAt(v);
                    case RANDOM, TAGS -> r.nextInt(5) < 3;
                    default -> true;
                };
                if (!present) continue;
                if (k == Kind.FULL && !f.struct) { o.set(f.key, nonDefault(f, v, r)); continue; }
            }
            o.set(f.key, k == Kind.DEFAULT ? dflt(f, v) : value(f, v, k, r, depth));
        }
        return o;
    }

    // ---------- unknown tagged fields ----------
    @SuppressWarnings("unchecked")
    static void addUnknown(Object obj, ObjectNode node, List<Field> fields, int v, SplittableRandom r, boolean force) throws Exception {
        int max = -1;
        for (Field f : fields) max = Math.max(max, f.tag);
        if (force || r.nextInt(3) > 0) {
            int[] cand = {max + 1, max + 2, 126, 127, 128, 16383, 16384, 2097151, 2097152, 268435455, 268435456, Integer.MAX_VALUE - 1};
            TreeSet<Integer> tags = new TreeSet<>();
            int n = r.nextInt(1, 4);
            while (tags.size() < n) { int t = cand[r.nextInt(cand.length)]; if (t > max) tags.add(t); }
            ArrayNode arr = F.arrayNode();
            List<RawTaggedField> list = ((Message) obj).unknownTaggedFields();
            for (int t : tags) {
                byte[] d = bytes(r, new int[]{0, 1, 5, 127, 130}[r.nextInt(5)]);
                list.add(new RawTaggedField(t, d));
                arr.add(F.objectNode().put("tag", t).put("hex", hex(d)));
            }
            node.set(UNKNOWN, arr);
        }
        for (Field f : fields) {
            if (!f.struct || !f.at(v)) continue;
            JsonNode sub = node.get(f.key);
            if (sub == null || sub.isNull()) continue;
            Object val = obj.getClass().getMethod(f.key).invoke(obj);
            if (f.array) { int i = 0; for (Object e : (Iterable<Object>) val) addUnknown(e, (ObjectNode) sub.get(i++), f.fields, v, r, false); }
            else addUnknown(val, (ObjectNode) sub, f.fields, v, r, false);
        }
    }

    /** Put back what Kafka's writer leaves out: record bytes and unknown tagged fields. */
    static void patch(ObjectNode canon, ObjectNode in, List<Field> fields, int v) {
        if (in.has(UNKNOWN)) canon.set(UNKNOWN, in.get(UNKNOWN));
        for (Field f : fields) {
            JsonNode c = canon.get(f.key), i = in.get(f.key);
            if (c == null || c.isNull() || i == null || i.isNull()) continue;
            if (f.base.equals("records")) canon.set(f.key, i);
            else if (f.struct && f.array) for (int x = 0; x < c.size(); x++) patch((ObjectNode) c.get(x), (ObjectNode) i.get(x), f.fields, v);
            else if (f.struct) patch((ObjectNode) c, (ObjectNode) i, f.fields, v);
        }
    }

    // ---------- Kafka's side ----------
    static Message fromJson(Spec s, JsonNode n, int v) throws Exception {
        try { return (Message) s.read.invoke(null, n, (short) v); }
        catch (InvocationTargetException e) { throw (e.getCause() instanceof Exception x) ? x : e; }
    }
    static ObjectNode toJson(Spec s, Message m, int v) throws Exception {
        try { return (ObjectNode) s.write.invoke(null, m, (short) v, true); }
        catch (InvocationTargetException e) { throw (e.getCause() instanceof Exception x) ? x : e; }
    }
    static byte[] encode(Message m, int v) {
        ObjectSerializationCache c = new ObjectSerializationCache();
        int n = m.size(c, (short) v);
        ByteBuffer b = ByteBuffer.allocate(n + 64);
        ByteBufferAccessor a = new ByteBufferAccessor(b);
        m.write(a, c, (short) v);
        b.flip();
        if (b.remaining() != n) throw new IllegalStateException("size() said " + n + ", write() wrote " + b.remaining());
        byte[] out = new byte[b.remaining()];
        b.get(out);
        return out;
    }
    record Decoded(Message m, int left) { }
    static Decoded decode(Spec s, byte[] x, int v) throws Exception {
        Message m = (Message) s.data.getConstructor().newInstance();
        ByteBuffer b = ByteBuffer.wrap(x);
        m.read(new ByteBufferAccessor(b), (short) v);
        return new Decoded(m, b.remaining());
    }
    static final char[] HX = "0123456789abcdef".toCharArray();
    static String hex(byte[] b) {
        char[] c = new char[b.length * 2];
        for (int i = 0; i < b.length; i++) { c[2 * i] = HX[(b[i] >> 4) & 15]; c[2 * i + 1] = HX[b[i] & 15]; }
        return new String(c);
    }

    // ---------- fields that a version lacks ----------
    record Missing(List<Field> path, Field f, String why) { }
    static void missing(List<Field> fields, int v, List<Field> path, List<Missing> out) {
        for (Field f : fields) {
            if (!f.at(v)) {
                if (!f.struct && !f.base.equals("records")) out.add(new Missing(List.copyOf(path), f, f.ignorable ? "ignorable" : "unsupported"));
                continue;
            }
            if (!f.nullableAt(v) && f.nullable.hi() >= f.nullable.lo()) out.add(new Missing(List.copyOf(path), f, "null"));
            if (f.struct) { path.add(f); missing(f.fields, v, path, out); path.remove(path.size() - 1); }
        }
    }

    static long lines = 0, okMut = 0, errMut = 0, failures = 0;
    static final TreeMap<String, Integer> kinds = new TreeMap<>();

    static ObjectNode line(String src, Spec s, int v, String kind, int i) throws Exception {
        ObjectNode o = F.objectNode();
        o.put("src", src);
        if (s.apiKey == null) o.putNull("api"); else o.put("api", s.apiKey);
        o.put("name", s.name).put("type", s.type).put("v", v).put("flex", s.flexAt(v));
        if (s.type.equals("request") || s.type.equals("response")) o.put("hv", headerVersion(s, v));
        o.put("kind", kind).put("i", i);
        return o;
    }

    static int headerVersion(Spec s, int v) throws Exception {
        Class<?> t = Class.forName("org.apache.kafka.common.message.ApiMessageType");
        Object api = t.getMethod("fromApiKey", short.class).invoke(null, s.apiKey.shortValue());
        return (short) t.getMethod(s.type + "HeaderVersion", short.class).invoke(api, (short) v);
    }

    /** The pairs of message and version that a corpus has, each as "name version". */
    static Set<String> pairs(Path corpus) throws IOException {
        Set<String> found = new HashSet<>();
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(
                new GZIPInputStream(Files.newInputStream(corpus)), StandardCharsets.UTF_8))) {
            for (String text = lines.readLine(); text != null; text = lines.readLine()) {
                JsonNode line = JSON.readTree(text);
                found.add(line.get("name").asText() + " " + line.get("v").asInt());
            }
        }
        return found;
    }

    public static void main(String[] a) throws Exception {
        String src = a[0];
        long seed = Long.parseLong(a[1]);
        Set<String> skip = a.length > 3 ? pairs(Path.of(a[3])) : Set.of();
        int randoms = 6, muts = 6;
        Set<String> covered = new TreeSet<>();
        try (PrintWriter w = new PrintWriter(new OutputStreamWriter(new GZIPOutputStream(new FileOutputStream(a[2])), StandardCharsets.UTF_8))) {
            for (Spec s : load()) for (int v = s.valid.lo(); v <= s.valid.hi(); v++) {
                if (skip.contains(s.name + " " + v)) continue;
                List<Kind> plan = new ArrayList<>(List.of(Kind.DEFAULT, Kind.NULLS, Kind.MIN, Kind.MAX, Kind.FULL));
                for (int i = 0; i < randoms; i++) plan.add(Kind.RANDOM);
                plan.add(Kind.LONG);
                if (s.flexAt(v)) plan.add(Kind.TAGS);
                byte[] full = null;
                int idx = 0;
                for (Kind k : plan) {
                    SplittableRandom r = rng(seed, s.name + "/" + v + "/" + k + "/" + idx);
                    ObjectNode in = struct(s.fields, v, k, r, 0);
                    try {
                        Message m = fromJson(s, in, v);
                        if (k == Kind.TAGS) addUnknown(m, in, s.fields, v, r, true);
                        byte[] x = encode(m, v);
                        ObjectNode canon = toJson(s, m, v);
                        patch(canon, in, s.fields, v);
                        Decoded d = decode(s, x, v);
                        if (d.left != 0) throw new IllegalStateException("left over " + d.left);
                        if (!Arrays.equals(encode(d.m, v), x)) throw new IllegalStateException("re-encoding differs");
                        ObjectNode canon2 = toJson(s, d.m, v);
                        patch(canon2, canon, s.fields, v);
                        if (!JSON.writeValueAsString(canon2).equals(JSON.writeValueAsString(canon)))
                            throw new IllegalStateException("JSON differs after a round trip");
                        for (int cut = 0; cut < x.length; cut += Math.max(1, x.length / 16)) {
                            boolean threw = false;
                            try { decode(s, Arrays.copyOf(x, cut), v); } catch (RuntimeException e) { threw = true; }
                            if (!threw) throw new IllegalStateException("a prefix of " + cut + " of " + x.length + " bytes was accepted");
                        }
                        if (k == Kind.FULL) full = x;
                        ObjectNode o = line(src, s, v, k.name().toLowerCase(Locale.ROOT), idx);
                        o.set("json", canon);
                        o.put("hex", hex(x));
                        w.println(JSON.writeValueAsString(o));
                        lines++;
                        kinds.merge(k.name().toLowerCase(Locale.ROOT), 1, Integer::sum);
                        covered.add(s.name + " " + v);
                    } catch (Exception e) {
                        failures++;
                        String text = JSON.writeValueAsString(in);
                        System.err.println("FAIL " + s.name + " v" + v + " " + k + ": " + e + " "
                            + text.substring(0, Math.min(300, text.length())));
                    }
                    idx++;
                }
                // what happens when a field is set that this version cannot carry, or is null where it may not be
                List<Missing> miss = new ArrayList<>();
                missing(s.fields, v, new ArrayList<>(), miss);
                for (Missing q : miss) {
                    SplittableRandom r = rng(seed, s.name + "/" + v + "/enc/" + q.why + "/" + idx);
                    ObjectNode in = struct(s.fields, v, Kind.ONE, r, 0);
                    ObjectNode at = in;
                    boolean reach = true;
                    for (Field p : q.path) {
                        JsonNode n = at.get(p.key);
                        if (p.array && n != null && n.isArray() && n.size() > 0) n = n.get(0);
                        if (n == null || !n.isObject()) { reach = false; break; }
                        at = (ObjectNode) n;
                    }
                    if (!reach) continue;
                    at.set(q.f.key, q.why.equals("null") ? NullNode.instance : nonDefault(q.f, v, r));
                    ObjectNode o = line(src, s, v, "enc-" + q.why, idx++);
                    StringBuilder path = new StringBuilder();
                    for (Field p : q.path) path.append(p.key).append('.');
                    o.put("field", path + q.f.key);
                    o.set("json", in);
                    String stage = "read-json";
                    try {
                        Message m = fromJson(s, in, v);
                        stage = "write";
                        o.put("hex", hex(encode(m, v)));
                    } catch (Exception e) {
                        o.put("err", e.getClass().getSimpleName()).put("stage", stage);
                    }
                    w.println(JSON.writeValueAsString(o));
                    lines++;
                    kinds.merge("enc-" + q.why + (o.has("err") ? " -> error" : " -> written"), 1, Integer::sum);
                }
                // damaged bytes: Kafka's verdict
                if (full != null && full.length > 0) for (int i = 0; i < muts; i++) {
                    SplittableRandom r = rng(seed, s.name + "/" + v + "/mut/" + i);
                    byte[] x = full.clone();
                    int n = 1 + r.nextInt(3);
                    for (int q = 0; q < n; q++) {
                        int p = r.nextInt(x.length);
                        x[p] = switch (r.nextInt(4)) {
                            case 0 -> (byte) 0xff;
                            case 1 -> (byte) (x[p] ^ (1 << r.nextInt(8)));
                            case 2 -> (byte) 0x7f;
                            default -> (byte) r.nextInt(256);
                        };
                    }
                    ObjectNode o = line(src, s, v, "mut", idx++);
                    o.put("hex", hex(x));
                    try {
                        Decoded d = decode(s, x, v);
                        byte[] y = encode(d.m, v);
                        o.put("verdict", "ok").put("left", d.left);
                        if (!Arrays.equals(x, y)) o.put("rehex", hex(y));
                        okMut++;
                    } catch (Throwable e) {
                        o.put("verdict", "error").put("err", e.getClass().getSimpleName());
                        errMut++;
                    }
                    w.println(JSON.writeValueAsString(o));
                    lines++;
                    kinds.merge("mut", 1, Integer::sum);
                }
            }
        }
        System.err.println("lines " + lines + ", (schema, version) pairs " + covered.size() + ", failures " + failures
            + ", mut ok " + okMut + " / error " + errMut);
        System.err.println(kinds);
        if (failures > 0) System.exit(1);
    }
}
