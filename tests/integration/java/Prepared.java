// Reads texts as Kafka's own PreparedTxnState, and prints what it makes of each: its text again, or that it refuses it.

import org.apache.kafka.clients.producer.PreparedTxnState;

public final class Prepared {
    public static void main(String[] texts) {
        for (String text : texts) {
            try {
                var state = new PreparedTxnState(text);
                System.out.println(state + " " + state.producerId() + " " + state.epoch());
            } catch (IllegalArgumentException refused) {
                System.out.println("refused");
            }
        }
    }
}
