import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.time.Instant;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of one group by Kafka's Java consumer: TOPIC [NAME=VALUE].
 *
 * <p>A line of the input is "join NUMBER" or "leave NUMBER REST", where REST are the milliseconds between the member's last poll and its
 * leaving; at its end all leave. A line of the output is what a member's
 * application saw, by the clock of the machine: "NANOSECONDS NUMBER WHAT PARTITIONS", WHAT one of joins, assigned, revoked,
 * read, leaves, and failed, which has a text in place of partitions.
 */
public class RebalanceBench {
    private static final Duration POLL = Duration.ofMillis(100);

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("enable.auto.commit", "false");
        for (String property : List.of(arguments).subList(1, arguments.length)) {
            String[] parts = property.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        Map<String, Member> members = new HashMap<>();
        var orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            String[] order = line.split(" ");
            switch (order[0]) {
                case "join" -> {
                    members.put(order[1], new Member(order[1], arguments[0], settings));
                    members.get(order[1]).start();
                }
                case "leave" -> {
                    Member member = members.remove(order[1]);
                    member.rest = Long.parseLong(order[2]);
                    member.leaves = true;
                    member.join();
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        for (Member member : members.values()) {
            member.leaves = true;
        }
        for (Member member : members.values()) {
            member.join();
        }
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final String number;
        private final String topic;
        private final Properties settings;
        private volatile boolean leaves;
        private volatile long rest;

        Member(String number, String topic, Properties settings) {
            this.number = number;
            this.topic = topic;
            this.settings = settings;
        }

        @Override
        public void run() {
            tell("joins", "");
            var bytes = new ByteArrayDeserializer();
            try (var consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
                consumer.subscribe(List.of(topic), this);
                while (!leaves) {
                    saw("read", consumer.poll(POLL).partitions());
                }
                Thread.sleep(rest);
                tell("leaves", "");
            } catch (RuntimeException | InterruptedException error) {
                tell("failed", error.toString().replace('\n', ' '));
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            saw("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            saw("revoked", partitions);
        }

        private void saw(String what, Collection<TopicPartition> partitions) {
            if (!partitions.isEmpty()) {
                tell(what, partitions.stream().map(p -> "" + p.partition()).collect(Collectors.joining(",")));
            }
        }

        private void tell(String what, String about) {
            Instant now = Instant.now();
            long nanoseconds = now.getEpochSecond() * 1_000_000_000L + now.getNano();
            synchronized (System.out) {
                System.out.println(nanoseconds + " " + number + " " + what + " " + about);
                System.out.flush();
            }
        }
    }
}
