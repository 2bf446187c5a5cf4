// Kafka's command line tools, one after the other within one process.
//
//     Tools < LINES     a line is "NAME\tCLASS\tARGUMENT..."; for each comes "== NAME STATUS", what the tool printed, and "=="
//
// A tool that ends the process ends only its own run: its status is the number with which it ended.

import org.apache.kafka.common.utils.Exit;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;

public class Tools {
    static class Ended extends Error {
        final int status;

        Ended(int status) {
            super("ended", null, false, false);
            this.status = status;
        }
    }

    // With what the tool ended at first.
    static Integer first;

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out, err = System.err;
        Exit.Procedure end = (status, message) -> {
            if (first == null) {
                first = status;
                // A tool that catches everything prints this end, too, and ends once more.
                System.setOut(new PrintStream(PrintStream.nullOutputStream()));
                System.setErr(System.out);
            }
            throw new Ended(status);
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream capture = new PrintStream(printed, true);
            System.setOut(capture);
            System.setErr(capture);
            first = null;
            int status = 0;
            try {
                String[] rest = Arrays.copyOfRange(parts, 2, parts.length);
                // Scala's objects have the same static method.
                Class.forName(parts[1]).getMethod("main", String[].class).invoke(null, (Object) rest);
            } catch (InvocationTargetException e) {
                Throwable cause = e.getCause();
                status = cause instanceof Ended ? ((Ended) cause).status : -1;
                if (status == -1) {
                    capture.println(cause);
                }
            } finally {
                System.setOut(out);
                System.setErr(err);
            }
            out.println("== " + parts[0] + " " + (first == null ? status : first));
            out.print(printed);
            out.println("\n==");
        }
        out.flush();
        // A tool may have left threads behind.
        Runtime.getRuntime().halt(0);
    }
}
