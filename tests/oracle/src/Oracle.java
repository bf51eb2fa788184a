import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;

/**
 * Sends the same requests to a reference broker (Apache Kafka) and to a candidate (ringlog) and compares the decoded answers.
 *
 * <p>{@code Oracle --reference HOST:PORT --candidate HOST:PORT --dir tests/oracle [--only PATTERN] [--self] [--verbose]}.
 * With {@code --self} both are Apache Kafka: no difference is allowed and the list of allowed ones is not read.
 */
public final class Oracle {
    /** What the candidate has to serve, at each version the reference advertises. */
    private static final List<String> SERVED = List.of("ApiVersions", "Metadata", "Produce", "Fetch", "ListOffsets", "FindCoordinator", "JoinGroup",
        "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch", "OffsetDelete", "DescribeGroups", "ListGroups", "DeleteGroups",
        "CreateTopics", "DeleteTopics", "CreatePartitions", "DeleteRecords", "DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs",
        "InitProducerId", "OffsetForLeaderEpoch", "DescribeCluster", "DescribeTopicPartitions", "DescribeLogDirs");
    /** Produce is advertised from 0 for old clients, but 0 to 2 are refused (KAFKA-18659). */
    private static final Set<String> ADVERTISED_ONLY = Set.of("Produce/0", "Produce/1", "Produce/2");

    private int passed;
    private int failed;

    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int i = 0; i < args.length; i++) {
            boolean flag = i + 1 == args.length || args[i + 1].startsWith("--");
            options.put(args[i].substring(2), flag ? "" : args[++i]);
        }
        System.exit(new Oracle().run(options) ? 0 : 1);
    }

    private boolean run(Map<String, String> options) throws Exception {
        Path dir = Path.of(options.get("dir"));
        boolean self = options.containsKey("self");
        long now = Batches.NOW;
        Side reference = new Side("reference", options.get("reference"), now);
        Side candidate = new Side("candidate", options.get("candidate"), now);
        Compare compare = new Compare(dir.resolve("normalise.txt"));
        Allowed allowed = self ? null : new Allowed(dir.resolve("allowed-differences.txt"));
        Script script = new Script();
        try (Stream<Path> files = Files.list(dir.resolve("cases"))) {
            for (Path file : files.filter(f -> f.toString().endsWith(".case")).sorted().toList()) script.load(file);
        }
        String only = options.get("only");
        ExecutorService both = Executors.newFixedThreadPool(2, task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });
        for (Side side : List.of(reference, candidate)) both.submit(() -> warm(side)).get();
        int differences = 0, meant = 0;
        for (Script.Case one : script.cases) {
            if (only != null && !Compare.glob(only).matcher(one.title()).matches()) continue;
            long start = System.nanoTime();
            try {
                Future<Side.Run> left = both.submit(() -> reference.run(one)), right = both.submit(() -> candidate.run(one));
                Side.Run a = take(left), b = take(right);
                List<Compare.Difference> bad = new ArrayList<>();
                for (Compare.Difference d : compare.compare(one.title(), a, b)) {
                    if (allowed != null && allowed.allows(d)) meant++;
                    else bad.add(d);
                }
                differences += bad.size();
                count(bad.isEmpty(), one.title(), bad.stream().map(Object::toString).collect(Collectors.joining("\n    ")));
                if (options.containsKey("verbose")) for (Side.Answer answer : a.answers()) System.out.println("  " + one.title() + " " + answer.step() + " " + answer.body());
            } catch (CaseFailed e) {
                count(false, one.title(), e.getMessage());
            }
            long ms = (System.nanoTime() - start) / 1_000_000;
            if (ms > 3_000 && options.containsKey("times")) System.out.println("slow  " + one.title() + " " + ms + " ms");
        }
        both.shutdown();
        if (only == null) {
            coverage(self, reference, candidate);
            if (allowed != null) for (String line : allowed.unused()) count(false, "allowed difference is used", line);
        }
        if (options.containsKey("texts")) compare.texts.forEach(t -> System.out.println("text  " + t));
        System.out.printf("%d differences not allowed, %d allowed, %d texts differ%n", differences, meant, compare.texts.size());
        System.out.printf("%d passed, %d failed%n", passed, failed);
        return failed == 0;
    }

    private void count(boolean good, String what, String why) {
        if (good) {
            passed++;
            return;
        }
        failed++;
        System.out.println("FAIL  " + what + "\n    " + why);
    }

    private static final class CaseFailed extends Exception {
        CaseFailed(String why) {
            super(why);
        }
    }

    private static Side.Run take(Future<Side.Run> future) throws InterruptedException, CaseFailed {
        try {
            return future.get(120, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            throw new CaseFailed(String.valueOf(e.getCause()));
        } catch (TimeoutException e) {
            future.cancel(true);
            throw new CaseFailed("no end after 120 s");
        }
    }

    /** Until producer ids are given and every partition of the group coordinator serves: first answers after a start say so, and that is not compared. */
    private static Void warm(Side side) throws IOException, InterruptedException {
        JsonNode producer = Api.JSON.readTree("{transactionalId:null,transactionTimeoutMs:1000}");
        for (long deadline = System.currentTimeMillis() + 30_000; side.ask("InitProducerId", producer).path("errorCode").asInt(-1) != 0; Thread.sleep(100)) {
            if (System.currentTimeMillis() > deadline) throw new IllegalStateException(side.name + " gives no producer id");
        }
        for (int i = 0; i < 400; i++) {
            for (long deadline = System.currentTimeMillis() + 30_000; ; Thread.sleep(100)) {
                if (i == 0) side.ask("FindCoordinator", Api.JSON.readTree("{keyType:0,coordinatorKeys:['warm-0']}"));
                JsonNode answer = side.ask("OffsetFetch", Api.JSON.readTree("{groups:[{groupId:'warm-" + i + "',topics:null}]}"));
                if (answer.at("/groups/0/errorCode").asInt(-1) == 0) break;
                if (System.currentTimeMillis() > deadline) throw new IllegalStateException(side.name + " has no group coordinator: " + answer);
            }
        }
        side.closeSetup();
        return null;
    }

    /** Everything advertised must have been answered, and everything to be served must be advertised. */
    private void coverage(boolean self, Side reference, Side candidate) throws IOException {
        Map<String, int[]> wanted = advertised(reference), got = advertised(candidate);
        wanted.keySet().retainAll(SERVED);
        if (self) got.keySet().retainAll(SERVED);
        for (String api : SERVED) {
            boolean same = got.containsKey(api) && Arrays.equals(wanted.get(api), got.get(api));
            count(same, "advertised: " + api, "reference " + Arrays.toString(wanted.get(api)) + ", candidate " + Arrays.toString(got.get(api)));
        }
        got.forEach((api, range) -> {
            for (int v = range[0]; v <= range[1]; v++) {
                String one = api + "/" + v;
                if (!ADVERTISED_ONLY.contains(one)) count(candidate.answered.contains(one), "exercised: " + one, "advertised, but no case had an answer at this version");
            }
        });
    }

    private static Map<String, int[]> advertised(Side side) throws IOException {
        Map<String, int[]> out = new TreeMap<>();
        JsonNode answer = side.ask("ApiVersions", Api.JSON.readTree("{clientSoftwareName:'oracle',clientSoftwareVersion:'1'}"));
        for (JsonNode key : answer.get("apiKeys")) {
            Api api = Api.ofKey(key.get("apiKey").asInt());
            String name = api == null ? "key " + key.get("apiKey") : api.name;
            out.put(name, new int[] {key.get("minVersion").asInt(), key.get("maxVersion").asInt()});
        }
        return out;
    }
}
