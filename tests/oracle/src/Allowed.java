import java.io.IOException;
import java.nio.file.*;
import java.util.*;
import java.util.regex.Pattern;

/** The list of differences that are meant: "case and step | path | reference -> candidate | reason", {@code *} any text, {@code #} a number. */
final class Allowed {
    private static final class Line {
        final String text;
        final Pattern where, path, values;
        int used;

        Line(String text, String[] part) {
            this.text = text;
            where = Compare.glob(part[0]);
            path = Compare.glob(part[1]);
            values = Compare.glob(part[2]);
        }
    }

    private final List<Line> lines = new ArrayList<>();

    Allowed(Path file) throws IOException {
        for (String text : Files.readAllLines(file)) {
            if (text.isBlank() || text.startsWith("#")) continue;
            String[] part = text.split("\\s*\\|\\s*");
            if (part.length != 4 || part[3].isBlank()) throw new IllegalArgumentException(file + ": want four parts, the last a reason: " + text);
            lines.add(new Line(text, part));
        }
    }

    boolean allows(Compare.Difference d) {
        boolean any = false;
        String values = d.reference() + " -> " + d.candidate();
        for (Line line : lines) {
            if (line.where.matcher(d.where()).matches() && line.path.matcher(d.path()).matches() && line.values.matcher(values).matches()) {
                line.used++;
                any = true;
            }
        }
        return any;
    }

    List<String> unused() {
        List<String> out = new ArrayList<>();
        for (Line line : lines) if (line.used == 0) out.add(line.text);
        return out;
    }
}
