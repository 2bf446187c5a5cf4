import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactions of a Java producer, one after the other: BOOTSTRAP TOPIC TRANSACTIONS RECORDS SIZE.
 *
 * <p>As many go ahead, which compile the code. Prints the seconds of all, and then of each commit.
 */
public class TransactionBench {
    public static void main(String[] arguments) {
        String topic = arguments[1];
        int transactions = Integer.parseInt(arguments[2]);
        int records = Integer.parseInt(arguments[3]);
        byte[] value = new byte[Integer.parseInt(arguments[4])];
        Arrays.fill(value, (byte) 'x');
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", topic);
        settings.put("linger.ms", "5");
        settings.put("batch.size", "131072");
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings, bytes, bytes)) {
            producer.initTransactions();
            run(producer, topic, transactions, records, value);
            long begin = System.nanoTime();
            double[] commits = run(producer, topic, transactions, records, value);
            System.out.println((System.nanoTime() - begin) / 1e9);
            Arrays.stream(commits).forEach(System.out::println);
        } catch (ApiException error) {
            // It has no stack trace, at which the launcher of source files fails itself and hides this error.
            throw new IllegalStateException(error);
        }
    }

    private static double[] run(
            KafkaProducer<byte[], byte[]> producer, String topic, int transactions, int records, byte[] value) {
        double[] commits = new double[transactions];
        for (int i = 0; i < transactions; i++) {
            producer.beginTransaction();
            for (int n = 0; n < records; n++) {
                producer.send(new ProducerRecord<>(topic, value));
            }
            long begin = System.nanoTime();
            producer.commitTransaction();
            commits[i] = (System.nanoTime() - begin) / 1e9;
        }
        return commits;
    }
}
