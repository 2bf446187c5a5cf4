import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.MetricValueProvider;
import org.apache.kafka.common.metrics.stats.CumulativeSum;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Time;

/** Kafka's own producer with metrics of a program (KIP-1076): a gauge of 7.25, and a counter of 3. */
public final class AppMetrics {
    private static final Map<String, String> TAGS = Map.of("Sales-Region", "EU", "client-id", "other");

    public static void main(String[] arguments) throws InterruptedException {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("client.id", arguments[1]);
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            CumulativeSum total = new CumulativeSum(3);
            Gauge<Double> open = (config, now) -> 7.25;
            producer.registerMetricForSubscription(metric("Orders-Total", total));
            producer.registerMetricForSubscription(metric("Orders-Open", open));
            // With the id comes the subscription, which wants a push each half second. A producer that is closed at once may not push.
            producer.clientInstanceId(Duration.ofSeconds(30));
            Thread.sleep(2000);
        }
    }

    private static KafkaMetric metric(String name, MetricValueProvider<?> value) {
        MetricName named = new MetricName(name, "My-Shop-Metrics", "", TAGS);
        return new KafkaMetric(new Object(), named, value, new MetricConfig(), Time.SYSTEM);
    }
}
