import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.*;
import java.util.*;
import java.util.stream.*;

/**
 * Fills a topic until its first segment is sealed, lets Kafka's own DumpLogSegments read the file, and compares what it prints with what was sent.
 *
 * <p>{@code SealedSegment --broker HOST:PORT --data DIR --classpath JARS}: a broker and its data folder.
 */
public final class SealedSegment {
    private static final int SEGMENT_BYTES = 1 << 20;
    private static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};
    private static final long TS = Batches.NOW;
    private static final int PER_BATCH = 20;

    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int i = 0; i + 1 < args.length; i += 2) options.put(args[i].substring(2), args[i + 1]);
        List<String> failures = run(options);
        failures.stream().limit(20).forEach(f -> System.out.println("FAIL  sealed segment: " + f));
        System.out.printf("%d passed, %d failed%n", failures.isEmpty() ? 1 : 0, failures.isEmpty() ? 0 : 1);
        System.exit(failures.isEmpty() ? 0 : 1);
    }

    private static List<String> run(Map<String, String> options) throws Exception {
        Side side = new Side("broker", options.get("broker"), System.currentTimeMillis());
        String topic = "sealed-" + Long.toString(System.currentTimeMillis(), 36);
        JsonNode created = side.ask("CreateTopics", Api.JSON.readTree("{timeoutMs:10000,topics:[{name:'" + topic
            + "',numPartitions:1,replicationFactor:1,configs:[{name:'segment.bytes',value:'" + SEGMENT_BYTES + "'}]}]}"));
        if (created.at("/topics/0/errorCode").asInt(-1) != 0) return List.of("creating the topic: " + created);
        side.ready(topic, 1);
        List<String> batches = new ArrayList<>(), records = new ArrayList<>();
        Path folder = null; // it is there with the first record at the latest
        for (int i = 0; i < 600 && (folder == null || segments(folder).size() < 2); i++) {
            String codec = CODECS[i % CODECS.length];
            boolean idempotent = i % 2 == 1;
            int first = i * PER_BATCH;
            String producer = idempotent ? " pid=" + (9000 + i) + " epoch=3 seq=" + i : "";
            String batch = "batch n=" + PER_BATCH + " codec=" + codec + " ts=" + (TS + i * 100L) + " headers=" + i % 3 + " size=700 value=b" + i + "-" + producer;
            ObjectNode request = (ObjectNode) Api.JSON.readTree("{acks:-1,timeoutMs:5000,topicData:[{name:'" + topic + "',partitionData:[{index:0,records:'" + batch + "'}]}]}");
            JsonNode answer = side.ask("Produce", 12, request);
            if (answer.at("/responses/0/partitionResponses/0/baseOffset").asInt(-1) != first) return List.of("producing: " + answer);
            if (folder == null) folder = folder(Path.of(options.get("data")), topic);
            batches.add(first + " " + (first + PER_BATCH - 1) + " " + codec + " " + (idempotent ? 9000 + i : -1));
            for (int r = 0; r < PER_BATCH; r++) {
                String headers = IntStream.range(0, i % 3).mapToObj(h -> "h" + h).collect(Collectors.joining(","));
                records.add((first + r) + " " + (TS + i * 100L + r) + " k" + r + " b" + i + "-" + r + " " + (idempotent ? i + r : -1) + " [" + headers + "]");
            }
        }
        if (segments(folder).size() < 2) return List.of("no second segment in " + folder + " after " + records.size() + " records");
        side.closeSetup();
        return compare(dump(options.get("classpath"), segments(folder).get(0)), batches, records, folder);
    }

    private static Path folder(Path data, String topic) throws IOException, InterruptedException {
        for (int i = 0; i < 100; i++, Thread.sleep(50)) {
            try (Stream<Path> all = Files.find(data, 3, (p, a) -> a.isDirectory() && p.getFileName().toString().equals(topic + "-0"))) {
                Optional<Path> found = all.findFirst();
                if (found.isPresent()) return found.get();
            }
        }
        throw new IOException("no folder " + topic + "-0 under " + data);
    }

    private static List<Path> segments(Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.filter(p -> p.toString().endsWith(".log")).sorted().toList();
        }
    }

    private static List<String> dump(String classpath, Path segment) throws IOException, InterruptedException {
        Process process = new ProcessBuilder("java", "-XX:TieredStopAtLevel=1", "-cp", classpath, "org.apache.kafka.tools.DumpLogSegments",
            "--print-data-log", "--deep-iteration", "--files", segment.toString()).redirectErrorStream(true).start();
        List<String> lines = process.inputReader().lines().toList();
        if (process.waitFor() != 0) throw new IOException("DumpLogSegments failed: " + String.join("\n", lines));
        return lines;
    }

    private static List<String> compare(List<String> dump, List<String> batches, List<String> records, Path folder) throws IOException {
        List<String> failures = new ArrayList<>();
        int b = 0, r = 0;
        for (String line : dump) {
            if (line.startsWith("baseOffset:")) {
                Map<String, String> f = fields(line);
                String got = f.get("baseOffset") + " " + f.get("lastOffset") + " " + f.get("compresscodec") + " " + f.get("producerId");
                if (b >= batches.size() || !got.equals(batches.get(b))) failures.add("batch " + b + " is " + got);
                if (!"true".equals(f.get("isvalid"))) failures.add("batch not valid: " + line);
                b++;
            } else if (line.startsWith("| offset:")) {
                Map<String, String> f = fields(line.substring(2));
                String payload = f.getOrDefault("payload", "");
                String value = payload.replaceFirst("^(b\\d+-\\d+).*", "$1");
                String got = f.get("offset") + " " + f.get("CreateTime") + " " + f.get("key") + " " + value + " " + f.get("sequence") + " " + f.get("headerKeys");
                if (r >= records.size() || !got.equals(records.get(r))) failures.add("record " + r + " is " + got + ", sent " + (r < records.size() ? records.get(r) : "nothing"));
                if (payload.length() != 700) failures.add("record " + r + " has a value of " + payload.length() + " bytes");
                r++;
            } else if (line.contains("Found") || line.contains("corrupt") || line.contains("Exception")) {
                failures.add(line);
            }
        }
        String next = segments(folder).get(1).getFileName().toString().replace(".log", "");
        if (r == 0 || r != Long.parseLong(next)) failures.add(r + " records read, but the next segment starts at " + Long.parseLong(next));
        System.out.println("sealed segment: " + b + " batches and " + r + " records read by DumpLogSegments, " + Files.size(segments(folder).get(0)) + " bytes");
        return failures;
    }

    private static Map<String, String> fields(String line) {
        Map<String, String> out = new HashMap<>();
        String[] words = line.split(" ");
        for (int i = 0; i + 1 < words.length; i++) if (words[i].endsWith(":")) out.put(words[i].substring(0, words[i].length() - 1), words[i + 1]);
        return out;
    }
}
