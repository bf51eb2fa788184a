import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

/**
 * Record sets: built from a description in one line (good ones and broken ones), and spelled out as JSON.
 *
 * <p>{@code batch n=3 codec=gzip pid=5 epoch=0 seq=0 | batch n=1}. Keys and their defaults: n=1 (records), codec=none, base=0,
 * leader=-1, magic=2, attr=0 (or-ed in), ts=(start of the run), step=1 (ms between records), pid=-1, epoch=-1, seq=-1, key=k (null: none), value=v,
 * size=0 (pad each value to), headers=0; and to break it: crc=bad, length=N (in place of the true one), lod=N (last offset delta), count=N, maxts=N,
 * deltas=0:2:5 (offset deltas of the records), body=HEX (in place of the records), cut=N (bytes off the end), tail=HEX.
 * {@code legacy magic=1} is a message of the old format; {@code hex 00ff} is taken as it is; {@code empty} has no byte.
 */
final class Batches {
    static final int HEADER = 61;
    /** The timestamp of records that say none: young enough for every retention, and the same for both brokers. */
    static final long NOW = System.currentTimeMillis();

    static byte[] build(String description) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (String part : description.split("\\|")) {
            String[] words = part.trim().split("\\s+");
            Map<String, String> options = new HashMap<>();
            for (int i = 1; i < words.length; i++) {
                String[] pair = words[i].split("=", 2);
                options.put(pair[0], pair.length > 1 ? pair[1] : "");
            }
            switch (words[0]) {
                case "batch" -> out.writeBytes(batch(options));
                case "legacy" -> out.writeBytes(legacy(options));
                case "hex" -> out.writeBytes(HexFormat.of().parseHex(words[1]));
                case "empty" -> { }
                default -> throw new IllegalArgumentException("record set: " + description);
            }
        }
        return out.toByteArray();
    }

    private static byte[] batch(Map<String, String> o) {
        try {
            int n = integer(o, "n", 1);
            CompressionType codec = CompressionType.forName(o.getOrDefault("codec", "none"));
            long ts = number(o, "ts", NOW), step = number(o, "step", 1);
            byte[] records = o.containsKey("body") ? HexFormat.of().parseHex(o.get("body")) : records(o, n, step);
            byte[] body = codec == CompressionType.NONE ? records : compress(codec, records);
            int cut = integer(o, "cut", 0);
            body = Arrays.copyOf(body, body.length - cut);
            byte[] tail = HexFormat.of().parseHex(o.getOrDefault("tail", ""));
            ByteBuffer b = ByteBuffer.allocate(HEADER + body.length + tail.length);
            b.putLong(number(o, "base", 0));
            b.putInt(integer(o, "length", HEADER - 12 + body.length));
            b.putInt(integer(o, "leader", -1));
            b.put((byte) integer(o, "magic", 2));
            b.putInt(0);
            b.putShort((short) (codec.id | integer(o, "attr", 0)));
            b.putInt(integer(o, "lod", n - 1));
            b.putLong(ts);
            b.putLong(number(o, "maxts", ts + step * Math.max(0, n - 1)));
            b.putLong(number(o, "pid", -1));
            b.putShort((short) integer(o, "epoch", -1));
            b.putInt(integer(o, "seq", -1));
            b.putInt(integer(o, "count", n));
            b.put(body);
            b.put(tail);
            int crc = (int) Crc32C.compute(b.array(), 21, HEADER - 21 + body.length);
            b.putInt(17, "bad".equals(o.get("crc")) ? ~crc : crc);
            return b.array();
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    private static byte[] records(Map<String, String> o, int n, long step) throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        String[] deltas = o.containsKey("deltas") ? o.get("deltas").split(":") : null;
        for (int i = 0; i < n; i++) {
            ByteArrayOutputStream one = new ByteArrayOutputStream();
            DataOutputStream data = new DataOutputStream(one);
            data.write(0);
            ByteUtils.writeVarlong(step * i, data);
            ByteUtils.writeVarint(deltas == null ? i : Integer.parseInt(deltas[i]), data);
            String key = o.getOrDefault("key", "k");
            field(data, key.equals("null") ? null : (key + i).getBytes(StandardCharsets.UTF_8));
            byte[] value = (o.getOrDefault("value", "v") + i).getBytes(StandardCharsets.UTF_8);
            if ("null".equals(o.get("value"))) value = null;
            else if (o.containsKey("size")) value = pad(value, integer(o, "size", 0));
            field(data, value);
            int headers = integer(o, "headers", 0);
            ByteUtils.writeVarint(headers, data);
            for (int h = 0; h < headers; h++) {
                field(data, ("h" + h).getBytes(StandardCharsets.UTF_8));
                field(data, h % 2 == 0 ? new byte[] {(byte) h, (byte) 0xff} : null);
            }
            DataOutputStream out = new DataOutputStream(all);
            ByteUtils.writeVarint(one.size(), out);
            out.write(one.toByteArray());
        }
        return all.toByteArray();
    }

    private static byte[] pad(byte[] value, int size) {
        byte[] out = Arrays.copyOf(value, Math.max(size, value.length));
        for (int i = value.length; i < out.length; i++) out[i] = (byte) ('a' + i % 23);
        return out;
    }

    private static void field(DataOutputStream data, byte[] bytes) throws IOException {
        ByteUtils.writeVarint(bytes == null ? -1 : bytes.length, data);
        if (bytes != null) data.write(bytes);
    }

    private static byte[] compress(CompressionType codec, byte[] plain) throws IOException {
        ByteBufferOutputStream out = new ByteBufferOutputStream(plain.length + 512);
        try (OutputStream stream = Compression.of(codec).build().wrapForOutput(out, (byte) 2)) {
            stream.write(plain);
        }
        ByteBuffer b = out.buffer();
        b.flip();
        byte[] packed = new byte[b.remaining()];
        b.get(packed);
        return packed;
    }

    private static byte[] legacy(Map<String, String> o) {
        byte magic = (byte) integer(o, "magic", 1);
        byte[] value = o.getOrDefault("value", "v").getBytes(StandardCharsets.UTF_8);
        int size = (magic == 0 ? 14 : 22) + value.length;
        ByteBuffer b = ByteBuffer.allocate(12 + size);
        b.putLong(0).putInt(size).putInt(0).put(magic).put((byte) 0);
        if (magic > 0) b.putLong(number(o, "ts", NOW));
        b.putInt(-1).putInt(value.length).put(value);
        java.util.zip.CRC32 crc = new java.util.zip.CRC32();
        crc.update(b.array(), 16, size - 4);
        b.putInt(12, (int) crc.getValue());
        return b.array();
    }

    private static long number(Map<String, String> o, String key, long otherwise) {
        return o.containsKey(key) ? Long.parseLong(o.get(key)) : otherwise;
    }

    private static int integer(Map<String, String> o, String key, int otherwise) {
        return o.containsKey(key) ? Integer.decode(o.get(key)) : otherwise;
    }

    /** Puts the decoded record sets of a fetch answer into its JSON. */
    static void spellOut(FetchResponseData fetch, ObjectNode json) {
        for (int t = 0; t < fetch.responses().size(); t++) {
            var topic = fetch.responses().get(t);
            for (int p = 0; p < topic.partitions().size(); p++) {
                ObjectNode partition = (ObjectNode) json.get("responses").get(t).get("partitions").get(p);
                partition.remove("recordsSizeInBytes");
                BaseRecords records = topic.partitions().get(p).records();
                if (records == null) partition.putNull("records");
                else partition.set("records", describe((MemoryRecords) records));
            }
        }
    }

    /** Every batch with the fields of its header and its records; a cut batch at the end is told by its length. */
    static ArrayNode describe(MemoryRecords records) {
        ArrayNode out = Api.JSON.createArrayNode();
        ByteBuffer b = records.buffer();
        int at = 0;
        while (b.remaining() - at >= 12) {
            int size = 12 + b.getInt(b.position() + at + 8);
            if (b.remaining() - at < size) break;
            ByteBuffer one = b.duplicate();
            one.position(b.position() + at).limit(b.position() + at + size);
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(one.slice()).batches()) out.add(describe((DefaultRecordBatch) batch));
            at += size;
        }
        if (b.remaining() > at) out.addObject().put("__cutBatch", true);
        return out;
    }

    private static ObjectNode describe(DefaultRecordBatch batch) {
        ObjectNode out = Api.JSON.createObjectNode();
        boolean appendTime = batch.timestampType() == TimestampType.LOG_APPEND_TIME;
        out.put("baseOffset", batch.baseOffset()).put("lastOffset", batch.lastOffset()).put("magic", batch.magic());
        out.put("partitionLeaderEpoch", batch.partitionLeaderEpoch()).put("crcValid", batch.isValid());
        out.put("codec", batch.compressionType().name).put("timestampType", batch.timestampType().name);
        out.put("maxTimestamp", appendTime ? "<time>" : String.valueOf(batch.maxTimestamp()));
        out.put("producerId", batch.producerId()).put("producerEpoch", batch.producerEpoch()).put("baseSequence", batch.baseSequence());
        out.put("control", batch.isControlBatch()).put("transactional", batch.isTransactional());
        if (batch.compressionType() == CompressionType.NONE) out.put("sizeInBytes", batch.sizeInBytes());
        ArrayNode list = out.putArray("records");
        if (!batch.isValid()) return out;
        for (org.apache.kafka.common.record.internal.Record record : batch) {
            StringBuilder text = new StringBuilder().append(record.offset());
            text.append(appendTime ? " <time>" : " " + record.timestamp());
            text.append(" key=").append(record.hasKey() ? show(record.key()) : "null");
            text.append(" value=").append(record.hasValue() ? show(record.value()) : "null");
            for (Header h : record.headers()) text.append(' ').append(h.key()).append('=').append(h.value() == null ? "null" : HexFormat.of().formatHex(h.value()));
            list.add(text.toString());
        }
        return out;
    }

    private static String show(ByteBuffer bytes) {
        byte[] all = new byte[bytes.remaining()];
        bytes.duplicate().get(all);
        if (all.length <= 40) return new String(all, StandardCharsets.UTF_8);
        return new String(all, 0, 10, StandardCharsets.UTF_8) + "..(" + all.length + ":" + Integer.toHexString(Arrays.hashCode(all)) + ")";
    }
}
