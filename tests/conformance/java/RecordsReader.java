// Kafka reads record batches and message sets that others wrote.
//
//     RecordsReader < LINES      a line is the hex of one or more batches; a line of JSON comes out for each
//
// The answer has the form of RecordsOracle's lines: "batches", "used", and "left" or "error".

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

public class RecordsReader {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (PrintWriter out = new PrintWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine())
                out.println(RecordsOracle.JSON.writeValueAsString(RecordsOracle.read(HexFormat.of().parseHex(line))));
        }
    }
}
