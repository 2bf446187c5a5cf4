import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/**
 * A plugin of brokers that appends what clients push to the file of the property `telemetry.file`: for each push the client's
 * id, its instance id, whether it was the last, and the metrics, each with its length before it.
 */
public final class TelemetryFile implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    private String file;

    /** The class path of a broker gets this class as an agent, which has nothing else to do. */
    public static void premain(String arguments) { }

    @Override
    public void configure(Map<String, ?> settings) {
        file = String.valueOf(settings.get("telemetry.file"));
    }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return this;
    }

    @Override
    public synchronized void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        ByteBuffer data = payload.data().duplicate();
        byte[][] parts = {
            context.clientId().getBytes(StandardCharsets.UTF_8),
            payload.clientInstanceId().toString().getBytes(StandardCharsets.UTF_8),
            String.valueOf(payload.isTerminating()).getBytes(StandardCharsets.UTF_8),
            new byte[data.remaining()]
        };
        data.get(parts[3]);
        int size = 0;
        for (byte[] part : parts) {
            size += 4 + part.length;
        }
        ByteBuffer push = ByteBuffer.allocate(size);
        for (byte[] part : parts) {
            push.putInt(part.length).put(part);
        }
        push.flip();
        try (FileChannel out = new FileOutputStream(file, true).getChannel()) {
            out.write(push);
        } catch (IOException failure) {
            throw new IllegalStateException(failure);
        }
    }

    @Override
    public void init(List<KafkaMetric> metrics) { }

    @Override
    public void metricChange(KafkaMetric metric) { }

    @Override
    public void metricRemoval(KafkaMetric metric) { }

    @Override
    public void close() { }
}
