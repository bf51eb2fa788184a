import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.*;
import java.io.IOException;
import java.net.*;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.regex.*;

/** One of the two brokers: runs the steps of a case against it and keeps the answers. */
final class Side {
    record Answer(String step, String api, JsonNode body) { }

    /** What a case gave: the answers, and what the ids in them are called. */
    record Run(List<Answer> answers, Map<String, String> ids, String tag) { }

    private record Pending(Api api, int version, int correlation) { }

    private static final Pattern STEP = Pattern.compile("^(?:(\\w+):\\s+)?(\\w+)(?:/(-?\\d+))?((?:\\s+\\+\\S+)*)\\s*(.*)$");
    private static final Pattern VARIABLE = Pattern.compile("\\$(\\{[\\w.]+\\}|\\w+(?:\\.id\\b)?)");
    private static final int UNTIL_MS = 10_000;

    final String name;
    private final InetSocketAddress address;
    private final long now;
    /** "API/version" that this side answered with a decodable body. */
    final Set<String> answered = new HashSet<>();
    private final Map<String, Peer> peers = new HashMap<>();
    private final Map<String, Deque<Pending>> pending = new HashMap<>();
    private Map<String, String> variables = new HashMap<>();
    private Map<String, String> ids = new HashMap<>();
    private int correlation = 100;

    Side(String name, String address, long now) {
        this.name = name;
        int colon = address.lastIndexOf(':');
        this.address = new InetSocketAddress(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
        this.now = now;
    }

    Run run(Script.Case one) throws Exception {
        variables = new HashMap<>(Map.of("case", one.name(), "v", String.valueOf(one.version()), "now", String.valueOf(now)));
        variables.put("g", name(one, "g"));
        variables.put("free", name(one, "free"));
        ids = new HashMap<>();
        List<Answer> answers = new ArrayList<>();
        JsonNode[] last = {MissingNode.getInstance()};
        try {
            for (Script.Step step : one.steps()) {
                try {
                    step(one, step, answers, last);
                } catch (RuntimeException e) {
                    throw new IllegalStateException(step.file() + ":" + step.line() + " (" + name + "): " + e.getMessage(), e);
                }
            }
        } finally {
            for (Peer peer : peers.values()) peer.close();
            peers.clear();
            pending.clear();
        }
        return new Run(answers, ids, tag());
    }

    private void step(Script.Case one, Script.Step step, List<Answer> answers, JsonNode[] last) throws Exception {
        String text = substitute(step.text());
        Matcher m = STEP.matcher(text);
        if (!m.matches()) throw new IllegalArgumentException("not understood: " + text);
        String connection = m.group(1) == null ? "main" : m.group(1);
        String verb = m.group(2), rest = m.group(5).strip();
        String label = String.format("%02d:%s", answers.size() + 1, verb);
        switch (verb) {
            case "topic" -> topic(one, rest);
            case "sleep" -> Thread.sleep(Long.parseLong(rest));
            case "close" -> peers.remove(rest).close();
            case "save" -> save(rest, last[0]);
            case "recv" -> {
                Pending p = pending.get(connection).removeFirst();
                last[0] = receive(connection, p);
                answers.add(new Answer(label + "-" + p.api.name, p.api.name, last[0]));
            }
            case "raw", "frame" -> {
                byte[] bytes = verb.equals("raw") ? HexFormat.of().parseHex(rest) : frame(rest);
                peer(connection).sendBytes(bytes);
                ByteBuffer frame = receiveFrame(connection);
                answers.add(new Answer(label, verb, frame == null ? new TextNode("closed") : new TextNode("answer")));
            }
            default -> request(one, Api.of(verb), m.group(3), connection, m.group(4), rest, label, answers, last);
        }
    }

    private void request(Script.Case one, Api api, String given, String connection, String modifiers, String json, String label,
                         List<Answer> answers, JsonNode[] last) throws Exception {
        int version = given != null ? Integer.parseInt(given) : api.name.equals(one.api()) ? one.version() : api.highest();
        Map<String, String> mods = new HashMap<>();
        for (String word : modifiers.strip().split("\\s+")) if (!word.isEmpty()) {
            String[] pair = word.substring(1).split("=", 2);
            mods.put(pair[0], pair.length > 1 ? pair[1] : "");
        }
        JsonNode body = json.isEmpty() ? Api.JSON.createObjectNode() : Api.JSON.readTree(json);
        long deadline = System.currentTimeMillis() + UNTIL_MS;
        while (true) {
            Pending p = new Pending(api, version, ++correlation);
            ByteBuffer frame = api.request(version, p.correlation, mods.containsKey("null") ? null : "oracle", body);
            if (mods.containsKey("junk")) frame = append(frame, HexFormat.of().parseHex(mods.get("junk")));
            if (mods.containsKey("cut")) frame.limit(frame.limit() - Integer.parseInt(mods.get("cut")));
            long start = System.nanoTime();
            peer(connection).send(frame);
            if (mods.containsKey("async")) {
                pending.computeIfAbsent(connection, k -> new ArrayDeque<>()).addLast(p);
                return;
            }
            if (mods.containsKey("silent")) {
                last[0] = silence(connection);
            } else {
                last[0] = receive(connection, p);
                if (mods.containsKey("slow") && last[0] instanceof ObjectNode object) {
                    long took = (System.nanoTime() - start) / 1_000_000;
                    object.put("__waited", took >= Integer.parseInt(mods.get("slow")));
                }
            }
            if (mods.containsKey("until") && System.currentTimeMillis() < deadline) {
                String[] want = mods.get("until").split("=", 2);
                if (!last[0].at(want[0]).asText("").equals(want[1])) {
                    Thread.sleep(30);
                    continue;
                }
            }
            break;
        }
        if (!mods.containsKey("ignore")) answers.add(new Answer(label, api.name, last[0]));
    }

    private JsonNode receive(String connection, Pending p) throws IOException {
        ByteBuffer frame;
        try {
            frame = receiveFrame(connection);
        } catch (SocketTimeoutException e) {
            peers.remove(connection).close();
            return new TextNode("no answer");
        }
        if (frame == null) return new TextNode("closed");
        ObjectNode out = p.api.response(p.version, p.correlation, frame);
        if (!out.has("__undecodable")) answered.add(p.api.name + "/" + p.version);
        return out;
    }

    private ByteBuffer receiveFrame(String connection) throws IOException {
        ByteBuffer frame = peer(connection).receive();
        if (frame == null) peers.remove(connection).close();
        return frame;
    }

    /** Says what came before the answer to a request sent behind a request that should have none. */
    private JsonNode silence(String connection) throws IOException {
        Api api = Api.of("ApiVersions");
        int probe = ++correlation;
        peer(connection).send(api.request(0, probe, "oracle", Api.JSON.createObjectNode()));
        int answers = 0;
        while (true) {
            ByteBuffer frame = receiveFrame(connection);
            if (frame == null) return new TextNode("closed");
            if (frame.getInt(0) == probe) return new TextNode(answers == 0 ? "silent" : answers + " answers");
            answers++;
        }
    }

    /** The same on both sides, and new in each run. */
    private String name(Script.Case one, String what) {
        return one.title().replace('/', '-') + "-" + what + "-" + tag();
    }

    private String tag() {
        return Long.toString(now, 36);
    }

    private void topic(Script.Case one, String rest) throws IOException, InterruptedException {
        String[] words = rest.split("\\s+");
        String topic = name(one, words[0]);
        ObjectNode body = Api.JSON.createObjectNode();
        body.put("timeoutMs", 10_000);
        ObjectNode creation = body.putArray("topics").addObject();
        creation.put("name", topic).put("numPartitions", 1).put("replicationFactor", 1);
        ArrayNode configs = creation.putArray("configs");
        for (int i = 1; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            if (pair[0].equals("partitions")) creation.put("numPartitions", Integer.parseInt(pair[1]));
            else configs.addObject().put("name", pair[0]).put("value", pair[1]);
        }
        JsonNode created = ask("CreateTopics", body);
        if (created.at("/topics/0/errorCode").asInt(-1) != 0) throw new IllegalStateException("creating " + topic + ": " + created);
        variables.put(words[0], topic);
        int partitions = creation.get("numPartitions").asInt();
        ready(topic, partitions);
        JsonNode metadata = ask("Metadata", Api.JSON.readTree("{topics:[{name:'" + topic + "'}]}"));
        keep(words[0] + ".id", metadata.at("/topics/0/topicId").asText());
    }

    /** Waits until every partition answers for itself. */
    void ready(String topic, int partitions) throws IOException, InterruptedException {
        StringBuilder list = new StringBuilder();
        for (int p = 0; p < partitions; p++) list.append("{partitionIndex:").append(p).append(",timestamp:-1},");
        JsonNode body = Api.JSON.readTree("{replicaId:-1,topics:[{name:'" + topic + "',partitions:[" + list.substring(0, list.length() - 1) + "]}]}");
        for (long deadline = System.currentTimeMillis() + UNTIL_MS; ; Thread.sleep(10)) {
            JsonNode answer = ask("ListOffsets", body);
            boolean all = answer.at("/topics/0/partitions").size() == partitions;
            for (JsonNode p : answer.at("/topics/0/partitions")) all &= p.get("errorCode").asInt() == 0;
            if (all) return;
            if (System.currentTimeMillis() > deadline) throw new IllegalStateException(topic + " does not get ready: " + answer);
        }
    }

    /** A request outside the comparison, on a connection of its own. */
    JsonNode ask(String api, JsonNode body) throws IOException {
        return ask(api, Api.of(api).highest(), body);
    }

    JsonNode ask(String api, int version, JsonNode body) throws IOException {
        Pending p = new Pending(Api.of(api), version, ++correlation);
        peer("__setup").send(p.api.request(p.version, p.correlation, "oracle", body));
        return receive("__setup", p);
    }

    void closeSetup() throws IOException {
        Peer peer = peers.remove("__setup");
        if (peer != null) peer.close();
    }

    private void save(String rest, JsonNode last) {
        String[] pair = rest.split("\\s*=\\s*");
        JsonNode value = last.at(pair[1]);
        if (value.isMissingNode() || value.isNull()) throw new IllegalStateException("nothing at " + pair[1] + " in " + last);
        keep(pair[0], value.asText());
    }

    private void keep(String name, String value) {
        variables.put(name, value);
        ids.putIfAbsent(value, "<" + name + ">");
    }

    private Peer peer(String connection) throws IOException {
        Peer peer = peers.get(connection);
        if (peer == null) peers.put(connection, peer = new Peer(address));
        return peer;
    }

    private String substitute(String text) {
        return VARIABLE.matcher(text).replaceAll(m -> {
            String key = m.group(1).startsWith("{") ? m.group(1).substring(1, m.group(1).length() - 1) : m.group(1);
            String value = variables.get(key);
            if (value == null) throw new IllegalArgumentException("no variable $" + key + " in: " + text);
            return Matcher.quoteReplacement(value);
        });
    }

    private static byte[] frame(String rest) {
        String[] words = rest.split("\\s+");
        byte[] body = words.length > 2 ? HexFormat.of().parseHex(words[2]) : new byte[0];
        ByteBuffer b = ByteBuffer.allocate(4 + 2 + 2 + 4 + 2 + 6 + body.length);
        b.putInt(b.capacity() - 4).putShort(Short.parseShort(words[0])).putShort(Short.parseShort(words[1])).putInt(7);
        b.putShort((short) 6).put("oracle".getBytes()).put(body);
        return b.array();
    }

    private static ByteBuffer append(ByteBuffer frame, byte[] more) {
        ByteBuffer out = ByteBuffer.allocate(frame.remaining() + more.length);
        out.put(frame).put(more).flip();
        return out;
    }
}
