import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.*;
import java.io.IOException;
import java.nio.file.*;
import java.util.*;
import java.util.regex.Pattern;

/**
 * Compares two answers after normalising them. Rules are lines "API | path | kind" of normalise.txt; kinds:
 * id (called as the case saved it, else numbered by first appearance; nil ids and 0 stay), id0 (the same, but 0 is an id like others),
 * time (times within a day of now are equal), positive (positive numbers are equal), text (differences are told, not failed),
 * any (any value is equal), key=FIELD[,FIELD] (the order of an array is free: it is compared by these fields), own=FIELD (the same, and
 * what has the name of another case is left out), sort (the order of plain values is free).
 */
final class Compare {
    record Difference(String where, String path, String reference, String candidate) {
        @Override
        public String toString() {
            return where + " | " + path + " | " + reference + " -> " + candidate;
        }
    }

    private static final long DAY_MS = 86_400_000;

    private record Rule(Pattern api, Pattern path, String kind) { }

    private final List<Rule> rules = new ArrayList<>();
    /** Texts that differ: reported, never failed. */
    final Set<String> texts = new TreeSet<>();

    Compare(Path file) throws IOException {
        for (String line : Files.readAllLines(file)) {
            if (line.isBlank() || line.startsWith("#")) continue;
            String[] part = line.split("\\s*\\|\\s*");
            rules.add(new Rule(glob(part[0]), glob(part[1]), part[2].strip()));
        }
    }

    /** Per side and case: what an id is called. */
    private static final class Names {
        final Map<String, String> names;

        /** What names of this run end with, and names of this case begin with. */
        final String run, own;

        Names(Side.Run run, String title) {
            names = new HashMap<>(run.ids());
            this.run = run.tag();
            own = title.replace('/', '-') + "-";
        }

        ArrayNode own(ArrayNode array, String field) {
            ArrayNode out = Api.JSON.createArrayNode();
            for (JsonNode one : array) {
                String name = one.path(field).asText();
                if (name.startsWith(own) || !name.contains(run)) out.add(one);
            }
            return out;
        }

        String of(String id) {
            return names.computeIfAbsent(id, k -> "<id" + (names.size() + 1) + ">");
        }
    }

    List<Difference> compare(String title, Side.Run left, Side.Run right) {
        List<Difference> out = new ArrayList<>();
        List<Side.Answer> reference = left.answers(), candidate = right.answers();
        Names a = new Names(left, title), b = new Names(right, title);
        int n = Math.min(reference.size(), candidate.size());
        for (int i = 0; i < n; i++) {
            Side.Answer ra = reference.get(i), rb = candidate.get(i);
            String where = title + " " + ra.step();
            diff(where, ra.api(), "", normal(ra.api(), "", ra.body(), a), normal(rb.api(), "", rb.body(), b), out);
        }
        if (reference.size() != candidate.size()) out.add(new Difference(title, "/steps", "" + reference.size(), "" + candidate.size()));
        return out;
    }

    private String kind(String api, String path) {
        for (Rule rule : rules) if (rule.api.matcher(api).matches() && rule.path.matcher(path).matches()) return rule.kind;
        return null;
    }

    private JsonNode normal(String api, String path, JsonNode node, Names names) {
        String kind = kind(api, path);
        if (node instanceof ObjectNode object) {
            ObjectNode out = Api.JSON.createObjectNode();
            object.properties().forEach(f -> out.set(f.getKey(), normal(api, path + "/" + f.getKey(), f.getValue(), names)));
            return out;
        }
        if (node instanceof ArrayNode array) {
            if (kind != null && kind.startsWith("key=")) return keyed(api, path, array, kind.substring(4).split(","), names);
            if (kind != null && kind.startsWith("own=")) return keyed(api, path, names.own(array, kind.substring(4)), new String[] {kind.substring(4)}, names);
            List<JsonNode> all = new ArrayList<>();
            array.forEach(all::add);
            if ("sort".equals(kind)) all.sort(Comparator.comparing(JsonNode::asText));
            ArrayNode out = Api.JSON.createArrayNode();
            for (int i = 0; i < all.size(); i++) out.add(normal(api, path + "/" + i, all.get(i), names));
            return out;
        }
        if (kind == null || node.isNull()) return node;
        return switch (kind) {
            case "id" -> nil(node) || node.asText().equals("0") ? node : new TextNode(names.of(node.asText()));
            case "id0" -> nil(node) ? node : new TextNode(names.of(node.asText()));
            case "time" -> Math.abs(node.asLong() - System.currentTimeMillis()) < DAY_MS ? new TextNode("<time>") : node;
            case "positive" -> node.asLong() > 0 ? new TextNode("<positive>") : node;
            case "text" -> node.asText().isEmpty() ? node : new TextNode("<text>" + node.asText());
            case "any" -> new TextNode("<any>");
            default -> node;
        };
    }

    private ObjectNode keyed(String api, String path, ArrayNode array, String[] fields, Names names) {
        TreeMap<String, JsonNode> byKey = new TreeMap<>();
        for (JsonNode one : array) {
            StringBuilder key = new StringBuilder();
            for (String field : fields) {
                String value = one.path(field).asText();
                key.append(key.isEmpty() ? "" : ",").append(names.names.getOrDefault(value, value));
            }
            String unique = key.toString();
            for (int again = 2; byKey.containsKey(unique); again++) unique = key + "#" + again;
            byKey.put(unique, one);
        }
        ObjectNode out = Api.JSON.createObjectNode();
        byKey.forEach((key, one) -> out.set(key, normal(api, path + "/" + key.replace('/', '_'), one, names)));
        return out;
    }

    private static boolean nil(JsonNode id) {
        String text = id.asText();
        return text.isEmpty() || text.equals("AAAAAAAAAAAAAAAAAAAAAA") || text.equals("-1");
    }

    private void diff(String where, String api, String path, JsonNode a, JsonNode b, List<Difference> out) {
        if (a != null && a.equals(b)) return;
        if (a instanceof ObjectNode && b instanceof ObjectNode) {
            Set<String> keys = new LinkedHashSet<>();
            a.fieldNames().forEachRemaining(keys::add);
            b.fieldNames().forEachRemaining(keys::add);
            for (String key : keys) diff(where, api, path + "/" + key, a.get(key), b.get(key), out);
        } else if (a instanceof ArrayNode && b instanceof ArrayNode) {
            if (a.size() != b.size()) out.add(new Difference(where, api + path + "/length", "" + a.size(), "" + b.size()));
            for (int i = 0; i < Math.min(a.size(), b.size()); i++) diff(where, api, path + "/" + i, a.get(i), b.get(i), out);
        } else if (text(a) && text(b) || text(a) && silent(b) || silent(a) && text(b)) {
            texts.add(api + path.replaceAll("/\\d+", "/*") + " | " + told(a) + " -> " + told(b));
        } else {
            out.add(new Difference(where, api + path, show(a), show(b)));
        }
    }

    private static boolean text(JsonNode node) {
        return node != null && node.isTextual() && node.asText().startsWith("<text>");
    }

    private static boolean silent(JsonNode node) {
        return node != null && (node.isNull() || node.isTextual() && node.asText().isEmpty());
    }

    private static String told(JsonNode node) {
        return text(node) ? node.asText().substring(6) : "none";
    }

    private static String show(JsonNode node) {
        if (node == null) return "absent";
        String text = node.isTextual() ? node.asText() : node.toString();
        return (text.length() > 160 ? text.substring(0, 160) + "..." : text).replace('|', '!');
    }

    /** {@code *} is any text, {@code #} a number. */
    static Pattern glob(String text) {
        StringBuilder out = new StringBuilder();
        for (char c : text.strip().toCharArray()) {
            if (c == '*') out.append(".*");
            else if (c == '#') out.append("\\d+");
            else out.append(Pattern.quote(String.valueOf(c)));
        }
        return Pattern.compile(out.toString(), Pattern.DOTALL);
    }
}
