// Kafka's own producer in transactions, for the integration tests.
//
//   Transactor run     BOOTSTRAP TOPIC ID GROUP COUNT   COUNT transactions with a record in each of 3 partitions and an offset
//                                                       of the group; those of odd numbers are aborted
//   Transactor fence   BOOTSTRAP TOPIC ID               a second producer of the same id comes; prints what the first is told
//   Transactor timeout BOOTSTRAP TOPIC ID               a transaction of 1 s that takes longer; prints what is told

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Transactor {
    static KafkaProducer<String, String> producer(String bootstrap, String id, int timeoutMs) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("transactional.id", id);
        config.put("transaction.timeout.ms", timeoutMs);
        config.put("max.block.ms", 30_000);
        var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    static void send(KafkaProducer<String, String> producer, String topic, String text) throws Exception {
        for (int partition = 0; partition < 3; partition++) {
            producer.send(new ProducerRecord<>(topic, partition, null, text + "-" + partition));
        }
        producer.flush();
    }

    static void run(String bootstrap, String topic, String id, String group, int count) throws Exception {
        try (var producer = producer(bootstrap, id, 30_000)) {
            for (int i = 0; i < count; i++) {
                producer.beginTransaction();
                send(producer, topic, id + "-" + i);
                producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(i)), new ConsumerGroupMetadata(group));
                if (i % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
        System.out.println("done");
    }

    static void commit(KafkaProducer<String, String> producer) {
        try {
            producer.commitTransaction();
            System.out.println("committed");
        } catch (KafkaException refused) {
            System.out.println(refused.getClass().getSimpleName());
        }
        producer.close(Duration.ZERO);
    }

    public static void main(String[] args) throws Exception {
        String bootstrap = args[1], topic = args[2], id = args[3];
        switch (args[0]) {
            case "run" -> run(bootstrap, topic, id, args[4], Integer.parseInt(args[5]));
            case "fence" -> {
                var first = producer(bootstrap, id, 30_000);
                first.beginTransaction();
                send(first, topic, "zombie");
                try (var second = producer(bootstrap, id, 30_000)) {
                    second.beginTransaction();
                    send(second, topic, "alive");
                    second.commitTransaction();
                }
                commit(first);
            }
            case "timeout" -> {
                var late = producer(bootstrap, id, 1000);
                late.beginTransaction();
                send(late, topic, "late");
                Thread.sleep(2500);
                commit(late);
            }
            default -> throw new IllegalArgumentException(args[0]);
        }
    }
}
