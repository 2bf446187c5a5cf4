// Kafka's own client, let in by several ways within one process.
//
//     Guests < LINES     a line is "NAME ACTION TOPIC FILE", FILE the client's properties; a line "NAME ok|failed TEXT" comes out
//
// Actions: "exchange" writes NAME and reads the topic's first value, "consume" only reads, "quota" sets a quota for its client id,
// writes faster than that, and says what the quota is and whether the producer was throttled.

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

public class Guests {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", 4);
            Properties properties = new Properties();
            try (FileReader file = new FileReader(parts[3])) {
                properties.load(file);
            }
            String said;
            try {
                said = "ok " + act(parts[1], parts[0], parts[2], properties);
            } catch (Exception e) {
                Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
                said = "failed " + cause.getClass().getSimpleName() + ": " + cause.getMessage();
            }
            System.out.println(parts[0] + " " + said.replace('\n', ' '));
        }
    }

    static String act(String action, String name, String topic, Properties properties) throws Exception {
        switch (action) {
            case "exchange":
                produce(name, topic, properties);
                return consume(topic, properties);
            case "consume":
                return consume(topic, properties);
            case "quota":
                return quota(name, topic, properties);
            default:
                throw new IllegalArgumentException(action);
        }
    }

    static void produce(String value, String topic, Properties properties) throws Exception {
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, 0, null, value)).get(20, TimeUnit.SECONDS);
        }
    }

    static String consume(String topic, Properties properties) {
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> partitions = List.of(new TopicPartition(topic, 0));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
            while (System.nanoTime() < end)
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) return record.value();
        }
        throw new IllegalStateException("no record in 20 s");
    }

    static String quota(String name, String topic, Properties properties) throws Exception {
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, name));
        Object described;
        try (Admin admin = Admin.create(properties)) {
            ClientQuotaAlteration.Op op = new ClientQuotaAlteration.Op("producer_byte_rate", 20000.0);
            admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(op)))).all().get();
            described = admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().get(entity);
        }
        properties.setProperty("client.id", name);
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < 8; i++)
                producer.send(new ProducerRecord<>(topic, 0, null, "x".repeat(5000))).get(20, TimeUnit.SECONDS);
            double throttled = producer.metrics().values().stream()
                .filter(metric -> metric.metricName().name().equals("produce-throttle-time-max"))
                .mapToDouble(metric -> (Double) metric.metricValue()).max().orElse(0);
            return described + (throttled > 0 ? " throttled" : " not throttled");
        }
    }
}
