// Prints what Kafka answers when it refuses a request, one JSON line a request. tests/conformance/refusals.py runs it against
// the jars of one release, with lines "api version hex" on the standard input. In place of the hex "made" asks for a request
// made here: Kafka does not parse one about ACLs whose numbers mean nothing, as those of random samples do, and does not
// answer a Produce that has null records or wants no acknowledgement, as all samples of a version may.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;

import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.CreateAclsRequestData;
import org.apache.kafka.common.message.CreateAclsRequestData.AclCreation;
import org.apache.kafka.common.message.DeleteAclsRequestData;
import org.apache.kafka.common.message.DeleteAclsRequestData.DeleteAclsFilter;
import org.apache.kafka.common.message.DescribeAclsRequestData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.ProduceRequestData.PartitionProduceData;
import org.apache.kafka.common.message.ProduceRequestData.TopicProduceData;
import org.apache.kafka.common.message.ProduceRequestData.TopicProduceDataCollection;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.RequestAndSize;
import org.apache.kafka.common.resource.ResourceType;

public class ErrorResponses {
    /** A refusal: one that a client may try again, one that it may not, and one that says nothing but that it failed. */
    record Refusal(Errors error, String message, int throttleTimeMs) { }

    static final Refusal[] REFUSALS = {
        new Refusal(Errors.NOT_COORDINATOR, "node 2 has it", 70_000),
        new Refusal(Errors.CLUSTER_AUTHORIZATION_FAILED, null, 0),
        new Refusal(Errors.UNKNOWN_SERVER_ERROR, null, 1),
    };

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            ApiKeys api = ApiKeys.forId(Integer.parseInt(words[0]));
            short version = Short.parseShort(words[1]);
            String hex = words[2].equals("made") ? HexFormat.of().formatHex(bytes(made(api), version)) : words[2];
            out.println(answers(api, version, hex));
        }
        out.flush();
    }

    static String answers(ApiKeys api, short version, String hex) throws Exception {
        StringBuilder line = new StringBuilder();
        line.append("{\"api\":").append(api.id).append(",\"v\":").append(version)
            .append(",\"request\":\"").append(hex).append("\"");
        try {
            parse(api, version, HexFormat.of().parseHex(hex));
        } catch (InvocationTargetException e) {
            return line.append(",\"unparsed\":\"").append(e.getCause().getClass().getSimpleName()).append("\"}").toString();
        }
        line.append(",\"answers\":[");
        for (Refusal refusal : REFUSALS) {
            line.append(line.charAt(line.length() - 1) == '[' ? "" : ",")
                .append("{\"code\":").append(refusal.error.code())
                .append(",\"message\":").append(refusal.message == null ? "null" : "\"" + refusal.message + "\"")
                .append(",\"throttle\":").append(refusal.throttleTimeMs)
                .append(answer(api, version, hex, refusal)).append("}");
        }
        return line.append("]}").toString();
    }

    /** The bytes of the answer, or what Kafka does instead. */
    static String answer(ApiKeys api, short version, String hex, Refusal refusal) throws Exception {
        // Parsed anew each time: some answers are made out of the request's own parts.
        AbstractRequest request = parse(api, version, HexFormat.of().parseHex(hex));
        byte[] bytes;
        try {
            AbstractResponse response = request.getErrorResponse(refusal.throttleTimeMs, exception(refusal));
            if (response == null) {
                return ",\"none\":true";
            }
            bytes = bytes(response.data(), version);
        } catch (RuntimeException e) {
            return ",\"throws\":\"" + e.getClass().getSimpleName() + "\"";
        }
        return ",\"hex\":\"" + HexFormat.of().formatHex(bytes) + "\"";
    }

    static byte[] bytes(ApiMessage message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer out = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(out), cache, version);
        return out.array();
    }

    /** A request that Kafka parses: nothing for two partitions of the topic `t`, or may the user `u` read and write it? */
    static ApiMessage made(ApiKeys api) throws ReflectiveOperationException {
        byte topic = ResourceType.TOPIC.code(), allow = AclPermissionType.ALLOW.code();
        byte read = AclOperation.READ.code(), write = AclOperation.WRITE.code();
        switch (api) {
            case PRODUCE:
                TopicProduceData topicData = new TopicProduceData().setName("t")
                    .setPartitionData(List.of(nothing(0), nothing(1)));
                return new ProduceRequestData().setAcks((short) -1).setTimeoutMs(1000)
                    .setTopicData(new TopicProduceDataCollection(List.of(topicData).iterator()));
            case DESCRIBE_ACLS:
                return new DescribeAclsRequestData().setResourceTypeFilter(topic).setResourceNameFilter("t")
                    .setPrincipalFilter("User:u").setHostFilter("*").setOperation(read).setPermissionType(allow);
            case CREATE_ACLS:
                return new CreateAclsRequestData().setCreations(List.of(
                    new AclCreation().setResourceType(topic).setResourceName("t").setPrincipal("User:u").setHost("*")
                        .setOperation(read).setPermissionType(allow),
                    new AclCreation().setResourceType(topic).setResourceName("t").setPrincipal("User:u").setHost("*")
                        .setOperation(write).setPermissionType(allow)));
            case DELETE_ACLS:
                return new DeleteAclsRequestData().setFilters(List.of(
                    new DeleteAclsFilter().setResourceTypeFilter(topic).setResourceNameFilter("t")
                        .setPrincipalFilter("User:u").setHostFilter("*").setOperation(read).setPermissionType(allow),
                    new DeleteAclsFilter().setResourceTypeFilter(topic).setResourceNameFilter("t")
                        .setPrincipalFilter("User:u").setHostFilter("*").setOperation(write).setPermissionType(allow)));
            default:
                throw new IllegalArgumentException("no request is made for " + api);
        }
    }

    /** No records for a partition, whose class has moved from one package to another between 3.9 and 4.x. */
    static PartitionProduceData nothing(int partition) throws ReflectiveOperationException {
        PartitionProduceData data = new PartitionProduceData().setIndex(partition);
        for (Method method : PartitionProduceData.class.getMethods()) {
            if (method.getName().equals("setRecords")) {
                String records = method.getParameterTypes()[0].getPackageName() + ".MemoryRecords";
                method.invoke(data, Class.forName(records).getField("EMPTY").get(null));
                return data;
            }
        }
        throw new NoSuchMethodException("PartitionProduceData.setRecords");
    }

    /** The error's own exception, with this message: `Errors.exception` would put a text of Kafka's in for none. */
    static Throwable exception(Refusal refusal) throws ReflectiveOperationException {
        ApiException own = refusal.error.exception();
        Constructor<? extends ApiException> with = own.getClass().getConstructor(String.class);
        return with.newInstance(refusal.message);
    }

    /** `AbstractRequest.parseRequest`, which takes a buffer in 3.9 and a reader in 4.x. */
    static AbstractRequest parse(ApiKeys api, short version, byte[] body) throws ReflectiveOperationException {
        for (Method method : AbstractRequest.class.getMethods()) {
            if (method.getName().equals("parseRequest")) {
                ByteBuffer buffer = ByteBuffer.wrap(body);
                boolean reads = method.getParameterTypes()[2] != ByteBuffer.class;
                Object parsed = method.invoke(null, api, version, reads ? new ByteBufferAccessor(buffer) : buffer);
                return ((RequestAndSize) parsed).request;
            }
        }
        throw new NoSuchMethodException("AbstractRequest.parseRequest");
    }
}
