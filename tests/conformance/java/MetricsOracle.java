import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.telemetry.internals.MetricNamingStrategy;
import org.apache.kafka.common.telemetry.internals.TelemetryMetricNamingConvention;

/** Prints the metrics of Kafka's own clients after a record went through a topic: client, group, name, tags, value, and the name in a push. */
public final class MetricsOracle {
    /** The names of metrics that are pushed to brokers. */
    private static final MetricNamingStrategy<MetricName> NAMES =
        TelemetryMetricNamingConvention.getClientTelemetryMetricNamingStrategy("org.apache.kafka");

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("client.id", "oracle");
        settings.put("enable.metrics.push", "false");
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (Producer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            producer.send(new ProducerRecord<>(topic, 0, null, new byte[100])).get();
            print("producer", producer.metrics());
        }
        ByteArrayDeserializer read = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, read, read)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            while (consumer.poll(Duration.ofSeconds(1)).isEmpty()) { }
            print("consumer", consumer.metrics());
        }
        for (String protocol : List.of("classic", "consumer")) {
            Map<String, Object> member = new HashMap<>(settings);
            member.put("group.id", protocol);
            member.put("group.protocol", protocol);
            member.put("auto.offset.reset", "earliest");
            // Or a slow start commits on its own, and there is one commit more.
            member.put("enable.auto.commit", "false");
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(member, read, read)) {
                consumer.subscribe(List.of(topic));
                while (consumer.poll(Duration.ofSeconds(1)).isEmpty()) { }
                consumer.commitSync();
                print(protocol + " member", consumer.metrics());
            }
        }
        settings.put("group.id", "shared");
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings, read, read)) {
            consumer.subscribe(List.of(topic));
            // Once a request has gone to a node, its metrics are there, too.
            while (consumer.metrics().keySet().stream().noneMatch(name -> name.tags().containsKey("node-id"))) {
                consumer.poll(Duration.ofMillis(100));
            }
            print("share-consumer", consumer.metrics());
        }
        settings.remove("group.id");
        try (Admin admin = Admin.create(settings)) {
            admin.listTopics().names().get();
            print("admin", admin.metrics());
        }
    }

    private static void print(String client, Map<MetricName, ? extends Metric> metrics) {
        for (MetricName name : metrics.keySet()) {
            String tags = String.join(",", new TreeSet<>(name.tags().keySet()));
            String value = String.valueOf(metrics.get(name).metricValue());
            String pushed = NAMES.metricKey(name).name();
            System.out.println(String.join("\t", client, name.group(), name.name(), tags, value, pushed));
        }
    }
}
