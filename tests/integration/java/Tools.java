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

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out, err = System.err;
        Exit.setExitProcedure((status, message) -> {
            throw new Ended(status);
        });
        Exit.setHaltProcedure((status, message) -> {
            throw new Ended(status);
        });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream capture = new PrintStream(printed, true);
            System.setOut(capture);
            System.setErr(capture);
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
            out.println("== " + parts[0] + " " + status);
            out.print(printed);
            out.println("\n==");
        }
        out.flush();
        // A tool may have left threads behind.
        Runtime.getRuntime().halt(0);
    }
}
