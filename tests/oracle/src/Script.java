import java.io.IOException;
import java.nio.file.*;
import java.util.*;
import java.util.regex.*;

/**
 * The scenario language. A file holds macros and cases; a case is a list of steps, one per line ({@code \} at the end continues).
 *
 * <pre>{@code
 * def NAME(a,b) = TEXT               a macro: a step that starts with NAME is replaced; <a>, <b> are the words after it, the last takes the rest
 * case NAME                          runs once
 * case NAME for API A-B              runs once for each version: API alone in a step then means that version, and $v is it
 *   topic t partitions=2 key=value   creates a topic on both sides and waits for it: $t its name, $t.id its id
 *   API {json}                       sends a request, takes the answer and compares it; fields left out have Kafka's defaults
 *   API/3 {json}                     at a version of its own (without: the highest)
 *   x: API {json}                    on connection x (without: the connection "main"); a new name opens one
 *   API +async {json}                does not wait; x: recv takes the answer
 *   API +silent {json}               no answer is expected (acks=0): proven by an ApiVersions request behind it
 *   API +junk=00ff / +cut=3          bytes added to or taken from the end of the body
 *   API +null                        a null client id
 *   API +slow=300                    tells as well whether the answer took at least so many ms
 *   API +until=/path=value           repeats the request until the answer says so (10 s at most)
 *   API +ignore                      the answer is not compared, only kept for save
 *   frame KEY VERSION HEX            a frame with a version 1 header and that body;  raw HEX: bytes as they are
 *   save x = /json/pointer           keeps a value of the last answer of this side as $x
 *   sleep MS;  close x
 *   [4+] STEP, [0-3] STEP, [7] STEP  only at these versions of a case with versions
 * }</pre>
 * In every case: $case is its name, $g a group name, $free a name nothing has, $now the start of the run in ms. In JSON, names need no quotes and strings may have single ones.
 */
final class Script {
    record Step(String text, String file, int line) { }

    record Case(String name, String api, int version, List<Step> steps) {
        String title() {
            return api == null ? name : name + "/v" + version;
        }
    }

    private static final Pattern ONLY = Pattern.compile("^\\[(\\d+)(\\+|-(\\d+))?\\]\\s*(.*)$");
    private static final Pattern DEF = Pattern.compile("^def (\\w+)\\(([^)]*)\\)\\s*=\\s*(.*)$");
    private static final Pattern CASE = Pattern.compile("^case ([\\w.-]+)(?:\\s+for (\\w+) (\\d+)-(\\d+))?$");

    private record Macro(List<String> parameters, String text) { }

    private final Map<String, Macro> macros = new HashMap<>();
    final List<Case> cases = new ArrayList<>();

    void load(Path file) throws IOException {
        List<String> lines = Files.readAllLines(file);
        String name = null, api = null;
        int from = 0, to = 0;
        List<Step> steps = new ArrayList<>();
        for (int i = 0; i < lines.size(); i++) {
            int number = i + 1;
            String line = lines.get(i);
            while (line.endsWith("\\")) line = line.substring(0, line.length() - 1).stripTrailing() + " " + lines.get(++i).strip();
            if (line.isBlank() || line.strip().startsWith("#")) continue;
            Matcher def = DEF.matcher(line), head = CASE.matcher(line);
            if (def.matches()) {
                List<String> parameters = def.group(2).isBlank() ? List.of() : List.of(def.group(2).split("\\s*,\\s*"));
                macros.put(def.group(1), new Macro(parameters, def.group(3)));
            } else if (head.matches()) {
                add(name, api, from, to, steps);
                name = head.group(1);
                api = head.group(2);
                from = api == null ? 0 : Integer.parseInt(head.group(3));
                to = api == null ? 0 : Integer.parseInt(head.group(4));
                steps = new ArrayList<>();
            } else if (Character.isWhitespace(line.charAt(0)) && name != null) {
                steps.add(new Step(line.strip(), file.getFileName().toString(), number));
            } else {
                throw new IllegalArgumentException(file + ":" + number + ": not understood: " + line);
            }
        }
        add(name, api, from, to, steps);
    }

    private void add(String name, String api, int from, int to, List<Step> steps) {
        if (name == null) return;
        for (int v = from; v <= to; v++) {
            List<Step> own = new ArrayList<>();
            for (Step step : steps) {
                Matcher only = ONLY.matcher(step.text);
                String text = step.text;
                if (only.matches()) {
                    int low = Integer.parseInt(only.group(1));
                    int high = only.group(2) == null ? low : only.group(2).equals("+") ? 999 : Integer.parseInt(only.group(3));
                    if (v < low || v > high) continue;
                    text = only.group(4);
                }
                own.add(new Step(expand(text), step.file, step.line));
            }
            Case one = new Case(name, api, v, own);
            if (cases.stream().anyMatch(c -> c.title().equals(one.title()))) throw new IllegalArgumentException("two cases " + one.title());
            cases.add(one);
        }
    }

    /** Replaces a macro at the start of a step (behind a connection name) until none is left. */
    private String expand(String text) {
        for (int depth = 0; depth < 8; depth++) {
            String connection = "";
            Matcher m = Pattern.compile("^(\\w+:\\s+)?(\\w+)((?:\\s+\\+\\S+)*)\\s*(.*)$").matcher(text);
            if (!m.matches() || !macros.containsKey(m.group(2))) return text;
            if (m.group(1) != null) connection = m.group(1);
            Macro macro = macros.get(m.group(2));
            int n = macro.parameters.size();
            String[] words = n == 0 ? new String[0] : m.group(4).split("\\s+", n);
            String body = macro.text;
            for (int p = 0; p < n; p++) {
                if (p >= words.length) throw new IllegalArgumentException("macro " + m.group(2) + " wants " + n + " words: " + text);
                body = body.replace("<" + macro.parameters.get(p) + ">", words[p]);
            }
            // Modifiers given to the macro go behind the API's name.
            if (!m.group(3).isBlank()) body = body.replaceFirst("^(\\S+)", "$1" + Matcher.quoteReplacement(m.group(3)));
            text = connection + body;
        }
        throw new IllegalArgumentException("macros without end: " + text);
    }
}
