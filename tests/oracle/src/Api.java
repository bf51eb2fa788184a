import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.*;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;

/**
 * One API of the protocol, encoded and decoded by Kafka's own generated classes.
 * A request is given as partial JSON; what is left out gets the default of Kafka's message definition.
 * A response becomes JSON; record sets in it are spelled out by {@link Batches}.
 */
final class Api {
    static final ObjectMapper JSON = new ObjectMapper()
        .configure(JsonParser.Feature.ALLOW_COMMENTS, true)
        .configure(JsonParser.Feature.ALLOW_SINGLE_QUOTES, true)
        .configure(JsonParser.Feature.ALLOW_UNQUOTED_FIELD_NAMES, true);
    private static final Map<String, Api> BY_NAME = new TreeMap<>();

    final String name;
    final ApiMessageType type;
    private final ObjectNode requestDefinition;
    private final Map<String, JsonNode> structs = new HashMap<>();

    static Api of(String name) {
        Api api = BY_NAME.get(name);
        if (api == null) throw new IllegalArgumentException("no such API: " + name);
        return api;
    }

    static boolean exists(String name) {
        return BY_NAME.containsKey(name);
    }

    static Api ofKey(int key) {
        for (Api api : BY_NAME.values()) if (api.type.apiKey() == key) return api;
        return null;
    }

    static {
        for (ApiMessageType type : ApiMessageType.values()) {
            if (type.highestSupportedVersion(true) < 0) continue; // no longer in the protocol
            String name = type.newRequest().getClass().getSimpleName().replace("RequestData", "");
            BY_NAME.put(name, new Api(name, type));
        }
    }

    private Api(String name, ApiMessageType type) {
        this.name = name;
        this.type = type;
        try (InputStream in = Api.class.getResourceAsStream("/common/message/" + name + "Request.json")) {
            requestDefinition = (ObjectNode) JSON.readTree(in);
        } catch (Exception e) {
            throw new IllegalStateException("definition of " + name, e);
        }
        for (JsonNode struct : requestDefinition.path("commonStructs")) structs.put(struct.get("name").asText(), struct);
    }

    short lowest() {
        return type.lowestSupportedVersion();
    }

    /** The highest version a broker advertises; Kafka's classes may know one that is not finished. */
    short highest() {
        return type.highestSupportedVersion(false);
    }

    short known(int version) {
        return (short) Math.max(lowest(), Math.min(type.highestSupportedVersion(true), version));
    }

    /** The frame, without its length: header and body. {@code version} goes into the header even if Kafka has no such version. */
    ByteBuffer request(int version, int correlation, String client, JsonNode partial) {
        short codec = known(version);
        JsonNode full = fill(requestDefinition.get("fields"), partial, codec, name);
        ApiMessage body = read(full, codec);
        RequestHeaderData header = new RequestHeaderData().setRequestApiKey(type.apiKey())
            .setRequestApiVersion((short) version).setCorrelationId(correlation).setClientId(client);
        ByteBuffer head = MessageUtil.toByteBufferAccessor(header, type.requestHeaderVersion(codec)).buffer();
        ByteBuffer tail = MessageUtil.toByteBufferAccessor(body, codec).buffer();
        ByteBuffer frame = ByteBuffer.allocate(head.remaining() + tail.remaining());
        frame.put(head).put(tail).flip();
        return frame;
    }

    /** What a peer answered; {@code frame} starts at the correlation id. */
    ObjectNode response(int version, int correlation, ByteBuffer frame) {
        // An ApiVersions answer to an unknown version is encoded as version 0 (KIP-511).
        short codec = type == ApiMessageType.API_VERSIONS && version != known(version) ? 0 : known(version);
        byte[] raw = new byte[frame.remaining()];
        frame.duplicate().get(raw);
        try {
            ResponseHeaderData header = new ResponseHeaderData();
            header.read(new ByteBufferAccessor(frame), type.responseHeaderVersion(codec));
            ApiMessage body = type.newResponse();
            body.read(new ByteBufferAccessor(frame), codec);
            ObjectNode out = (ObjectNode) write(body, codec);
            if (body instanceof FetchResponseData fetch) Batches.spellOut(fetch, out);
            if (header.correlationId() != correlation) out.put("__correlation", header.correlationId() - correlation);
            if (!header.unknownTaggedFields().isEmpty()) out.put("__headerTags", header.unknownTaggedFields().size());
            if (frame.hasRemaining()) out.put("__trailingBytes", frame.remaining());
            return out;
        } catch (RuntimeException e) {
            ObjectNode out = JSON.createObjectNode();
            out.put("__undecodable", String.valueOf(e.getMessage()));
            out.put("__bytes", HexFormat.of().formatHex(raw, 0, Math.min(raw.length, 200)));
            return out;
        }
    }

    private ApiMessage read(JsonNode full, short version) {
        return (ApiMessage) converter(type.newRequest(), "read", JsonNode.class, short.class).apply(full, version);
    }

    private static JsonNode write(ApiMessage message, short version) {
        Class<?> data = message.getClass();
        return (JsonNode) converter(message, "write", data, short.class).apply(message, version);
    }

    private interface Call {
        Object apply(Object first, Object second);
    }

    private static Call converter(ApiMessage message, String method, Class<?>... parameters) {
        try {
            Method m = Class.forName(message.getClass().getName() + "JsonConverter").getMethod(method, parameters);
            return (first, second) -> {
                try {
                    return m.invoke(null, first, second);
                } catch (InvocationTargetException e) {
                    throw new IllegalArgumentException(e.getCause().getMessage(), e.getCause());
                } catch (IllegalAccessException e) {
                    throw new IllegalStateException(e);
                }
            };
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** {@code partial} completed with defaults; refuses fields the definition has in no version. */
    private ObjectNode fill(JsonNode fields, JsonNode partial, short version, String where) {
        ObjectNode out = JSON.createObjectNode();
        Set<String> known = new HashSet<>();
        for (JsonNode field : fields) {
            String key = lowerFirst(field.get("name").asText());
            known.add(key);
            if (!in(field.get("versions"), version)) continue;
            JsonNode given = partial.get(key);
            if (given == null && in(field.get("taggedVersions"), version)) continue;
            out.set(key, value(field, given, version, where + "/" + key));
        }
        for (Iterator<String> names = partial.fieldNames(); names.hasNext(); ) {
            String given = names.next();
            if (!known.contains(given)) throw new IllegalArgumentException("no field " + given + " in " + where);
        }
        return out;
    }

    private JsonNode value(JsonNode field, JsonNode given, short version, String where) {
        String type = field.get("type").asText();
        boolean array = type.startsWith("[]");
        String element = array ? type.substring(2) : type;
        JsonNode inner = field.has("fields") ? field.get("fields")
            : structs.containsKey(element) ? structs.get(element).get("fields") : null;
        if (given != null && !given.isNull()) {
            if (type.equals("records")) return new BinaryNode(Batches.build(given.asText()));
            if (inner == null) return given;
            if (!array) return fill(inner, given, version, where);
            ArrayNode out = JSON.createArrayNode();
            for (JsonNode one : given) out.add(fill(inner, one, version, where));
            return out;
        }
        String byDefault = field.path("default").asText("");
        if (given != null || byDefault.equals("null")) return NullNode.instance;
        if (array) return JSON.createArrayNode();
        if (inner != null) return fill(inner, JSON.createObjectNode(), version, where);
        return switch (type) {
            case "string" -> new TextNode(byDefault);
            case "uuid" -> new TextNode("AAAAAAAAAAAAAAAAAAAAAA");
            case "bytes" -> new BinaryNode(new byte[0]);
            case "records" -> NullNode.instance;
            case "bool" -> BooleanNode.valueOf(byDefault.equals("true"));
            default -> new LongNode(byDefault.isEmpty() ? 0 : Long.decode(byDefault));
        };
    }

    /** Whether a version range of a definition ("3", "3+", "3-7", "none") holds {@code version}. */
    private static boolean in(JsonNode range, int version) {
        if (range == null || range.asText().equals("none")) return false;
        String text = range.asText();
        if (text.endsWith("+")) return version >= Integer.parseInt(text.substring(0, text.length() - 1));
        int dash = text.indexOf('-');
        if (dash < 0) return version == Integer.parseInt(text);
        return version >= Integer.parseInt(text.substring(0, dash)) && version <= Integer.parseInt(text.substring(dash + 1));
    }

    private static String lowerFirst(String name) {
        return Character.toLowerCase(name.charAt(0)) + name.substring(1);
    }
}
