// Writes the golden files of this folder with Apache Kafka's own classes (4.4.0):
//   java -cp '/opt/kafka/lib/*' tests/goldens/record/Goldens.java tests/goldens/record
//   java -cp '/opt/kafka/lib/*' tests/goldens/record/Goldens.java --append < cases > outcomes
//
// batches.txt   batches of the same five records from MemoryRecordsBuilder, one line a codec and level
// append.txt    batches, most of them damaged, and what UnifiedLog.appendAsLeader says to each
// producer.txt  appends of several idempotent producers to one UnifiedLog, and the snapshots it takes
import java.io.*;
import java.nio.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.ProduceResponse.RecordError;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.*;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class Goldens {
    static final long NOW = 1_700_000_000_000L;

    static class FixedTime implements Time {
        long now = NOW;
        public long milliseconds() { return now; }
        public long nanoseconds() { return now * 1_000_000; }
        public void sleep(long ms) { now += ms; }
    }

    static class NoScheduler implements Scheduler {
        public void startup() { }
        public void shutdown() { }
        public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) { return new NeverRun(); }
        public void resizeThreadPool(int size) { }
    }

    /** UnifiedLog wants something to cancel; a real executor would leave a thread behind for every log. */
    static class NeverRun extends FutureTask<Void> implements ScheduledFuture<Void> {
        NeverRun() { super(() -> null); }
        public long getDelay(TimeUnit unit) { return 0; }
        public int compareTo(Delayed other) { return 0; }
    }

    static String hex(byte[] bytes) { return HexFormat.of().formatHex(bytes); }

    static byte[] bytes(MemoryRecords records) {
        ByteBuffer b = records.buffer().duplicate();
        byte[] out = new byte[b.remaining()];
        b.get(out);
        return out;
    }

    static byte[] patched(byte[] batch, Consumer<ByteBuffer> change) {
        byte[] copy = batch.clone();
        ByteBuffer b = ByteBuffer.wrap(copy);
        change.accept(b);
        fixCrc(copy);
        return copy;
    }

    static void fixCrc(byte[] batch) {
        java.util.zip.CRC32C crc = new java.util.zip.CRC32C();
        int end = Math.min(batch.length, 12 + ByteBuffer.wrap(batch).getInt(8));
        if (end < 21) return;
        crc.update(batch, 21, end - 21);
        ByteBuffer.wrap(batch).putInt(17, (int) crc.getValue());
    }

    /** A batch whose records section is given; count and lastOffsetDelta are of `count` records. */
    static byte[] raw(int attributes, int count, long baseTimestamp, long maxTimestamp, byte[] records) {
        byte[] out = new byte[61 + records.length];
        ByteBuffer b = ByteBuffer.wrap(out);
        b.putLong(0).putInt(49 + records.length).putInt(-1).put((byte) 2).putInt(0).putShort((short) attributes);
        b.putInt(count - 1).putLong(baseTimestamp).putLong(maxTimestamp).putLong(-1).putShort((short) -1).putInt(-1).putInt(count);
        b.put(records);
        fixCrc(out);
        return out;
    }

    static class Rec {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Rec varint(long v) {
            long z = (v << 1) ^ (v >> 63);
            while ((z & ~0x7fL) != 0) { out.write((int) (z & 0x7f | 0x80)); z >>>= 7; }
            out.write((int) z);
            return this;
        }
        Rec raw(int... bs) { for (int b : bs) out.write(b); return this; }
        Rec bytes(byte[] b) { out.writeBytes(b); return this; }
        byte[] done() { return out.toByteArray(); }
    }

    static byte[] record(int attributes, long timestampDelta, int offsetDelta, String key, String value) {
        Rec body = new Rec().raw(attributes).varint(timestampDelta).varint(offsetDelta);
        for (String s : new String[]{key, value}) {
            if (s == null) body.varint(-1); else body.varint(s.length()).bytes(s.getBytes(StandardCharsets.UTF_8));
        }
        body.varint(0);
        return new Rec().varint(body.done().length).bytes(body.done()).done();
    }

    static byte[] cat(byte[]... parts) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (byte[] p : parts) out.writeBytes(p);
        return out.toByteArray();
    }

    static SimpleRecord[] five() {
        byte[] big = new byte[3000];
        for (int i = 0; i < big.length; i++) big[i] = (byte) (i * 7 / 13);
        return new SimpleRecord[]{
            new SimpleRecord(NOW - 10, "k0".getBytes(), "v0".getBytes()),
            new SimpleRecord(NOW + 5, null, "no key".getBytes(), new Header[]{new RecordHeader("h", "1".getBytes()),
                new RecordHeader("h", (byte[]) null), new RecordHeader("", new byte[0])}),
            new SimpleRecord(NOW - 500, "tombstone".getBytes(), null),
            new SimpleRecord(NOW, new byte[0], big),
            new SimpleRecord(NOW, null, (byte[]) null),
        };
    }

    static SimpleRecord[] keyed(int n) {
        SimpleRecord[] out = new SimpleRecord[n];
        for (int i = 0; i < n; i++)
            out[i] = new SimpleRecord(NOW - 100 + i, ("key" + i).getBytes(), ("value " + i + " some text to repeat, some text to repeat").getBytes());
        return out;
    }

    static Compression codec(String name) {
        switch (name) {
            case "none": return Compression.NONE;
            case "gzip": return Compression.gzip().build();
            case "snappy": return Compression.snappy().build();
            case "lz4": return Compression.lz4().build();
            case "zstd": return Compression.zstd().build();
            default: throw new IllegalArgumentException(name);
        }
    }

    // ---- appends to a real log ----

    static Properties properties(Map<String, String> config) {
        Properties p = new Properties();
        p.put("max.message.bytes", config.getOrDefault("max", "1048588"));
        p.put("message.timestamp.type", config.getOrDefault("ts", "CreateTime"));
        p.put("message.timestamp.before.max.ms", config.getOrDefault("before", "9223372036854775807"));
        p.put("message.timestamp.after.max.ms", config.getOrDefault("after", "3600000"));
        p.put("cleanup.policy", config.getOrDefault("compact", "0").equals("1") ? "compact" : "delete");
        p.put("compression.type", config.getOrDefault("compression", "producer"));
        return p;
    }

    static UnifiedLog open(File dir, Map<String, String> config, Time time) throws Exception {
        return UnifiedLog.create(dir, LogConfig.fromProps(Map.of(), properties(config)), 0L, 0L, new NoScheduler(),
            new BrokerTopicStats(), time, 900_000, new ProducerStateManagerConfig(86_400_000, true), 600_000,
            new LogDirFailureChannel(1), true, Optional.empty());
    }

    static Map<String, String> parse(String config) {
        Map<String, String> map = new TreeMap<>();
        for (String item : config.split(",")) if (!item.isEmpty()) map.put(item.split("=")[0], item.split("=")[1]);
        return map;
    }

    static void deleteTree(File f) {
        File[] inner = f.listFiles();
        if (inner != null) for (File i : inner) deleteTree(i);
        f.delete();
    }

    /** What the produce path does: ProduceRequest.validateRecords, then appendAsLeader, then ReplicaManager's mapping of exceptions. */
    static String append(UnifiedLog log, short version, byte[] batch) {
        try {
            ProduceRequest.validateRecords(version, MemoryRecords.readableRecords(ByteBuffer.wrap(batch)));
            LogAppendInfo info = log.appendAsLeader(MemoryRecords.readableRecords(ByteBuffer.wrap(batch.clone())), 7);
            return "OK\t" + info.firstOffset() + "\t" + info.lastOffset() + "\t" + info.maxTimestamp() + "\t" + info.logAppendTime();
        } catch (RecordValidationException e) {
            StringBuilder errors = new StringBuilder();
            for (RecordError r : e.recordErrors()) errors.append(errors.length() == 0 ? "" : "|").append(r.batchIndex).append(':').append(r.message);
            return "ERR\t" + Errors.forException(e.invalidException()).code() + "\t" + e.invalidException().getMessage() + "\t" + errors;
        } catch (Throwable t) {
            return "ERR\t" + Errors.forException(t).code() + "\t\t\t" + t.toString().replaceAll("\\s+", " ");
        }
    }

    static String appendCase(String config, byte[] batch) throws Exception {
        Map<String, String> map = parse(config);
        Path tmp = Files.createTempDirectory("goldens");
        File dir = new File(tmp.toFile(), "t-0");
        dir.mkdirs();
        UnifiedLog log = open(dir, map, new FixedTime());
        String outcome = append(log, Short.parseShort(map.getOrDefault("version", "9")), batch);
        if (outcome.startsWith("OK")) {
            log.flush(false);
            byte[] stored = Files.readAllBytes(new File(dir, "00000000000000000000.log").toPath());
            outcome += "\t" + (Arrays.equals(stored, expectedInPlace(batch)) ? "same" : hex(stored));
        }
        log.close();
        deleteTree(tmp.toFile());
        return outcome;
    }

    /** The batch with base offset 0 and leader epoch 7, all else as sent. */
    static byte[] expectedInPlace(byte[] batch) {
        byte[] copy = batch.clone();
        ByteBuffer.wrap(copy).putLong(0, 0).putInt(12, 7);
        return copy;
    }

    static void appendCases(PrintStream out) throws Exception {
        List<String[]> cases = new ArrayList<>();
        BiConsumer<String, byte[]> add = (name, batch) -> cases.add(new String[]{name.split(" ")[0], name.contains(" ") ? name.split(" ")[1] : "", hex(batch)});
        byte[] good = bytes(MemoryRecords.withRecords(Compression.NONE, keyed(3)));
        byte[] fiveBatch = bytes(MemoryRecords.withRecords(Compression.NONE, five()));
        byte[] idempotent = bytes(MemoryRecords.withIdempotentRecords(Compression.NONE, 42L, (short) 0, 0, keyed(3)));
        for (String c : new String[]{"none", "gzip", "snappy", "lz4", "zstd"}) {
            add.accept("good-" + c, bytes(MemoryRecords.withRecords(codec(c), keyed(20))));
            add.accept("five-" + c, bytes(MemoryRecords.withRecords(codec(c), five())));
            add.accept("five-compacted-" + c + " compact=1", bytes(MemoryRecords.withRecords(codec(c), five())));
            add.accept("keyed-compacted-" + c + " compact=1", bytes(MemoryRecords.withRecords(codec(c), keyed(3))));
            add.accept("append-time-" + c + " ts=LogAppendTime", bytes(MemoryRecords.withRecords(codec(c), keyed(3))));
            add.accept("too-old-" + c + " before=50", bytes(MemoryRecords.withRecords(codec(c), keyed(3))));
            add.accept("too-new-" + c + " after=2,before=1000", bytes(MemoryRecords.withRecords(codec(c), five())));
            add.accept("old-and-no-key-" + c + " compact=1,before=50", bytes(MemoryRecords.withRecords(codec(c), five())));
            byte[] b = bytes(MemoryRecords.withRecords(codec(c), keyed(20)));
            add.accept("max-timestamp-wrong-" + c, patched(b, x -> x.putLong(35, 5)));
            add.accept("truncated-records-" + c, patched(Arrays.copyOf(b, b.length - 9), x -> x.putInt(8, b.length - 9 - 12)));
            add.accept("count-more-" + c, patched(b, x -> x.putInt(57, 21).putInt(23, 20)));
            add.accept("count-less-" + c, patched(b, x -> x.putInt(57, 19).putInt(23, 18)));
            add.accept("producer-sets-append-time-" + c, patched(b, x -> x.putShort(21, (short) (x.getShort(21) | 8))));
            add.accept("producer-sets-append-time-on-append-time-topic-" + c + " ts=LogAppendTime", patched(b, x -> x.putShort(21, (short) (x.getShort(21) | 8))));
            byte[] f = bytes(MemoryRecords.withRecords(codec(c), five()));
            add.accept("five-with-append-time-on-append-time-topic-" + c + " ts=LogAppendTime", patched(f, x -> x.putShort(21, (short) (x.getShort(21) | 8))));
            add.accept("five-compacted-append-time-" + c + " ts=LogAppendTime,compact=1", f);
            add.accept("producer-sets-append-time-none-" + c, patched(b, x -> x.putShort(21, (short) (x.getShort(21) | 8)).putLong(35, -1)));
            add.accept("zstd-v6-" + c + " version=6", b);
        }
        add.accept("empty", new byte[0]);
        for (int n : new int[]{11, 12, 16, 17, 20, 21, 60}) add.accept("cut-" + n, Arrays.copyOf(good, n));
        add.accept("cut-last-byte", Arrays.copyOf(good, good.length - 1));
        add.accept("trailing-1", cat(good, new byte[1]));
        add.accept("trailing-11", cat(good, new byte[11]));
        add.accept("trailing-zeros-61", cat(good, new byte[61]));
        add.accept("trailing-half-batch", cat(good, Arrays.copyOf(good, 40)));
        add.accept("two-batches", cat(good, good));
        for (int l : new int[]{-1, 0, 13, 14, 40, 48, Integer.MAX_VALUE, Integer.MIN_VALUE}) add.accept("length-" + l, patched(good, x -> x.putInt(8, l)));
        for (int m : new int[]{-1, 0, 1, 3, 127}) add.accept("magic-" + m, patched(good, x -> x.put(16, (byte) m)));
        byte[] badCrc = good.clone(); badCrc[17] ^= 1;
        add.accept("crc", badCrc);
        byte[] badByte = good.clone(); badByte[badByte.length - 1] ^= 1;
        add.accept("crc-of-last-byte", badByte);
        add.accept("base-offset-5", patched(good, x -> x.putLong(0, 5)));
        add.accept("base-offset-negative", patched(good, x -> x.putLong(0, -1)));
        add.accept("max-size-exact max=" + good.length, good);
        add.accept("max-size-one-over max=" + (good.length - 1), good);
        add.accept("max-size-one-over-bad-crc max=" + (good.length - 1), badCrc);
        for (int c : new int[]{-1, 0, 2, 4, Integer.MAX_VALUE, Integer.MIN_VALUE}) add.accept("count-" + c, patched(good, x -> x.putInt(57, c)));
        for (int d : new int[]{-1, -2, 0, 1, 3, Integer.MAX_VALUE, Integer.MIN_VALUE}) add.accept("last-offset-delta-" + d, patched(good, x -> x.putInt(23, d)));
        add.accept("no-records", raw(0, 0, NOW, NOW, new byte[0]));
        add.accept("count-0-with-records", raw(0, 0, NOW, NOW, record(0, 0, 0, "k", "v")));
        add.accept("control", patched(good, x -> x.putShort(21, (short) 0x20)));
        add.accept("control-idempotent", patched(idempotent, x -> x.putShort(21, (short) 0x20)));
        add.accept("transactional-idempotent", patched(idempotent, x -> x.putShort(21, (short) 0x10)));
        add.accept("delete-horizon", patched(good, x -> x.putShort(21, (short) 0x40)));
        add.accept("unused-attribute-bits", patched(good, x -> x.putShort(21, (short) 0xff80)));
        add.accept("unused-attribute-bits-append-time ts=LogAppendTime", patched(good, x -> x.putShort(21, (short) 0xff80)));
        add.accept("idempotent", idempotent);
        add.accept("idempotent-no-sequence", patched(idempotent, x -> x.putInt(53, -1)));
        add.accept("idempotent-sequence-min", patched(idempotent, x -> x.putInt(53, Integer.MIN_VALUE)));
        add.accept("idempotent-no-epoch", patched(idempotent, x -> x.putShort(51, (short) -1)));
        add.accept("idempotent-epoch-min", patched(idempotent, x -> x.putShort(51, (short) -7)));
        add.accept("producer-id-min", patched(idempotent, x -> x.putLong(43, Long.MIN_VALUE)));
        add.accept("unknown-sequence-5", patched(idempotent, x -> x.putInt(53, 5)));
        for (long t : new long[]{Long.MIN_VALUE, Long.MAX_VALUE, -1, -2, 0, NOW + 3_600_000 - 2, NOW + 3_600_000 - 1}) {
            add.accept("base-timestamp-" + t, patched(good, x -> x.putLong(27, t)));
            add.accept("base-timestamp-before-" + t + " before=1000", patched(good, x -> x.putLong(27, t)));
        }
        // Records damaged one field at a time.
        byte[] ok0 = record(0, 0, 0, "k", "v");
        byte[] ok1 = record(0, 1, 1, "k", "v");
        add.accept("two-records", raw(0, 2, NOW, NOW + 1, cat(ok0, ok1)));
        add.accept("record-attributes", raw(0, 2, NOW, NOW + 1, cat(record(0x7f, 0, 0, "k", "v"), ok1)));
        add.accept("left-over-byte", raw(0, 2, NOW, NOW + 1, cat(ok0, ok1, new byte[1])));
        add.accept("record-size-short", raw(0, 1, NOW, NOW, new Rec().varint(ok0.length - 2).bytes(Arrays.copyOfRange(ok0, 1, ok0.length)).done()));
        add.accept("record-size-long", raw(0, 1, NOW, NOW, new Rec().varint(ok0.length).bytes(Arrays.copyOfRange(ok0, 1, ok0.length)).raw(0).done()));
        add.accept("record-size-past-end", raw(0, 1, NOW, NOW, new Rec().varint(900).bytes(Arrays.copyOfRange(ok0, 1, ok0.length)).done()));
        for (long v : new long[]{-1, -2, Integer.MIN_VALUE, Integer.MAX_VALUE, 4_294_967_295L, 1L << 40})
            add.accept("record-size-" + v, raw(0, 1, NOW, NOW, new Rec().varint(v).bytes(Arrays.copyOfRange(ok0, 1, ok0.length)).done()));
        add.accept("record-size-overlong-varint", raw(0, 1, NOW, NOW, new Rec().raw(0x90, 0x00).bytes(Arrays.copyOfRange(ok0, 1, ok0.length)).done()));
        add.accept("record-size-5-byte-varint", raw(0, 1, NOW, NOW, new Rec().raw(0x90, 0x80, 0x80, 0x80, 0x00).bytes(Arrays.copyOfRange(ok0, 1, ok0.length)).done()));
        add.accept("record-size-6-byte-varint", raw(0, 1, NOW, NOW, new Rec().raw(0x90, 0x80, 0x80, 0x80, 0x80, 0x00).bytes(Arrays.copyOfRange(ok0, 1, ok0.length)).done()));
        add.accept("record-size-varint-of-11-bytes", raw(0, 1, NOW, NOW, new Rec().raw(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01).bytes(ok0).done()));
        add.accept("record-size-varint-unfinished", raw(0, 1, NOW, NOW, new byte[]{(byte) 0x80}));
        for (long v : new long[]{-2, Integer.MIN_VALUE, 100, Integer.MAX_VALUE}) {
            byte[] key = new Rec().raw(0).varint(0).varint(0).varint(v).raw('k').varint(1).raw('v').varint(0).done();
            add.accept("key-size-" + v, raw(0, 1, NOW, NOW, new Rec().varint(key.length).bytes(key).done()));
            byte[] value = new Rec().raw(0).varint(0).varint(0).varint(1).raw('k').varint(v).raw('v').varint(0).done();
            add.accept("value-size-" + v, raw(0, 1, NOW, NOW, new Rec().varint(value.length).bytes(value).done()));
            byte[] count = new Rec().raw(0).varint(0).varint(0).varint(1).raw('k').varint(1).raw('v').varint(v).done();
            add.accept("header-count-" + v, raw(0, 1, NOW, NOW, new Rec().varint(count.length).bytes(count).done()));
            byte[] hkey = new Rec().raw(0).varint(0).varint(0).varint(1).raw('k').varint(1).raw('v').varint(1).varint(v).raw('h').varint(-1).done();
            add.accept("header-key-size-" + v, raw(0, 1, NOW, NOW, new Rec().varint(hkey.length).bytes(hkey).done()));
            byte[] hval = new Rec().raw(0).varint(0).varint(0).varint(1).raw('k').varint(1).raw('v').varint(1).varint(1).raw('h').varint(v).done();
            add.accept("header-value-size-" + v, raw(0, 1, NOW, NOW, new Rec().varint(hval.length).bytes(hval).done()));
        }
        byte[] nullHeaderKey = new Rec().raw(0).varint(0).varint(0).varint(1).raw('k').varint(1).raw('v').varint(1).varint(-1).varint(-1).done();
        add.accept("header-key-null", raw(0, 1, NOW, NOW, new Rec().varint(nullHeaderKey.length).bytes(nullHeaderKey).done()));
        byte[] badUtf8 = new Rec().raw(0).varint(0).varint(0).varint(1).raw('k').varint(1).raw('v').varint(1).varint(2).raw(0xc3, 0x28).varint(0).done();
        add.accept("header-key-not-utf8", raw(0, 1, NOW, NOW, new Rec().varint(badUtf8.length).bytes(badUtf8).done()));
        Rec many = new Rec().raw(0).varint(0).varint(0).varint(-1).varint(-1).varint(2000);
        for (int i = 0; i < 2000; i++) many.varint(0).varint(-1);
        add.accept("2000-headers", raw(0, 1, NOW, NOW, new Rec().varint(many.done().length).bytes(many.done()).done()));
        add.accept("timestamp-delta-min", raw(0, 1, NOW, NOW, record(0, Long.MIN_VALUE, 0, "k", "v")));
        add.accept("timestamp-delta-max", raw(0, 1, NOW, NOW, record(0, Long.MAX_VALUE, 0, "k", "v")));
        byte[] longVarlong = new Rec().raw(0).raw(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01).varint(0).varint(1).raw('k').varint(1).raw('v').varint(0).done();
        add.accept("timestamp-delta-11-bytes", raw(0, 1, NOW, NOW, new Rec().varint(longVarlong.length).bytes(longVarlong).done()));
        // Broken compressed sections.
        for (String c : new String[]{"gzip", "snappy", "lz4", "zstd"}) {
            int id = codec(c).type().id;
            add.accept("garbage-" + c, raw(id, 1, NOW, NOW, "this is not compressed data at all".getBytes()));
            add.accept("nothing-" + c, raw(id, 1, NOW, NOW, new byte[0]));
            byte[] b = bytes(MemoryRecords.withRecords(codec(c), keyed(20)));
            byte[] flipped = b.clone(); flipped[b.length / 2 + 30] ^= 0x10;
            add.accept("flipped-" + c, patched(flipped, x -> { }));
        }
        for (int id : new int[]{5, 6, 7}) add.accept("compression-" + id, patched(good, x -> x.putShort(21, (short) id)));
        // Random damage of good batches with a correct CRC, so that the walk itself is what decides.
        Random random = new Random(42);
        for (int i = 0; i < 160; i++) {
            byte[] b = (i % 2 == 0 ? good : fiveBatch).clone();
            if (i % 2 == 1 && b.length > 400) { // leave the long value out of the odd cases
                b = bytes(MemoryRecords.withRecords(Compression.NONE, Arrays.copyOf(five(), 3)));
            }
            int flips = 1 + random.nextInt(3);
            for (int f = 0; f < flips; f++) {
                int at = random.nextInt(10) == 0 ? 21 + random.nextInt(40) : 61 + random.nextInt(b.length - 61);
                b[at] = random.nextBoolean() ? (byte) random.nextInt(256) : (byte) (b[at] ^ (1 << random.nextInt(8)));
            }
            add.accept("random-" + i, patched(b, x -> { }));
        }
        for (String[] c : cases) out.println(c[0] + "\t" + c[1] + "\t" + c[2] + "\t" + appendCase(c[1], HexFormat.of().parseHex(c[2])));
    }

    // ---- batches of every codec ----

    static void batches(PrintStream out) {
        Map<String, Compression> codecs = new LinkedHashMap<>();
        for (String c : new String[]{"none", "gzip", "snappy", "lz4", "zstd"}) codecs.put(c, codec(c));
        codecs.put("gzip-9", Compression.gzip().level(9).build());
        codecs.put("lz4-17", Compression.lz4().level(17).build());
        codecs.put("zstd-22", Compression.zstd().level(22).build());
        codecs.put("zstd--5", Compression.zstd().level(-5).build());
        codecs.forEach((name, c) -> out.println(name + "\t" + hex(bytes(MemoryRecords.withRecords(2L, c, 9, five())))));
        out.println("idempotent\t" + hex(bytes(MemoryRecords.withIdempotentRecords(5L, Compression.NONE, 4711L, (short) 3, 2147483646, 9, keyed(4)))));
        out.println("transactional\t" + hex(bytes(MemoryRecords.withTransactionalRecords(5L, Compression.NONE, 4711L, (short) 3, 7, 9, keyed(2)))));
        out.println("control\t" + hex(bytes(MemoryRecords.withEndTransactionMarker(11L, NOW, 9, 4711L, (short) 3, new EndTransactionMarker(ControlRecordType.COMMIT, 1)))));
        out.println("append-time\t" + hex(bytes(MemoryRecords.withRecords((byte) 2, 5L, Compression.NONE, TimestampType.LOG_APPEND_TIME, keyed(2)))));
    }

    // ---- idempotent producers ----

    static void producers(PrintStream out) throws Exception {
        for (long seed = 1; seed <= 6; seed++) {
            Random random = new Random(seed);
            FixedTime time = new FixedTime();
            Path tmp = Files.createTempDirectory("goldens");
            File dir = new File(tmp.toFile(), "t-0");
            dir.mkdirs();
            UnifiedLog log = open(dir, Map.of(), time);
            out.println("log\t" + seed);
            int[] next = new int[4];
            short[] epoch = new short[4];
            for (int i = 0; i < 4; i++) next[i] = random.nextInt(3) == 0 ? Integer.MAX_VALUE - random.nextInt(4) : 0;
            List<long[]> sent = new ArrayList<>();
            for (int step = 0; step < 250; step++) {
                int kind = random.nextInt(20);
                int p = random.nextInt(4);
                long[] b; // producer id, epoch, sequence, count, timestamp
                int count = 1 + random.nextInt(4);
                long timestamp = NOW + random.nextInt(1000);
                if (kind < 10) b = new long[]{p, epoch[p], next[p], count, timestamp};
                else if (kind < 15 && !sent.isEmpty()) b = sent.get(Math.max(0, sent.size() - 1 - random.nextInt(12)));
                else if (kind < 16) b = new long[]{p, ++epoch[p], next[p] = (random.nextInt(3) == 0 ? 7 : 0), count, timestamp};
                else if (kind < 17) b = new long[]{p, epoch[p] - 1, next[p], count, timestamp};
                else if (kind < 19) b = new long[]{p, epoch[p], (next[p] + 1 + random.nextInt(3)) & Integer.MAX_VALUE, count, timestamp};
                else {
                    // A clean restart: what the snapshot keeps is one batch of each producer.
                    out.println("snapshot\t" + reopen(log, dir));
                    log = open(dir, Map.of(), time);
                    continue;
                }
                if (b[1] < 0) continue;
                SimpleRecord[] records = new SimpleRecord[(int) b[3]];
                for (int i = 0; i < records.length; i++) records[i] = new SimpleRecord(b[4], ("s" + i).getBytes(), "v".getBytes());
                MemoryRecords batch = MemoryRecords.withIdempotentRecords(Compression.NONE, 1000 + b[0], (short) b[1], (int) b[2], records);
                String outcome = append(log, (short) 9, bytes(batch));
                if (outcome.startsWith("OK")) {
                    sent.add(b);
                    if (b[1] == epoch[(int) b[0]]) {
                        next[(int) b[0]] = DefaultRecordBatch.incrementSequence((int) b[2], (int) b[3]);
                        outcome = outcome.replaceAll("^OK\t(-?\\d+)\t(-?\\d+)\t(-?\\d+)\t(-?\\d+)$", "OK\t$1\t$2\t$4");
                    } else outcome = outcome.replaceAll("^OK\t(-?\\d+)\t(-?\\d+)\t(-?\\d+)\t(-?\\d+)$", "OK\t$1\t$2\t$4");
                } else outcome = outcome.split("\t")[0] + "\t" + outcome.split("\t")[1];
                out.println("append\t" + (1000 + b[0]) + "\t" + b[1] + "\t" + b[2] + "\t" + b[3] + "\t" + b[4] + "\t" + outcome);
            }
            out.println("snapshot\t" + reopen(log, dir));
            deleteTree(tmp.toFile());
        }
    }

    /** Closes the log; the hex of the snapshot file it leaves at its end. */
    static String reopen(UnifiedLog log, File dir) throws Exception {
        long end = log.logEndOffset();
        log.close();
        Path snapshot = new File(dir, String.format("%020d.snapshot", end)).toPath();
        return end + "\t" + (Files.exists(snapshot) ? hex(Files.readAllBytes(snapshot)) : "none");
    }

    public static void main(String[] args) throws Exception {
        if (args[0].equals("--append")) {
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
            for (String line; (line = in.readLine()) != null; ) {
                String[] f = line.split("\t");
                System.out.println(f[0] + "\t" + f[1] + "\t" + f[2] + "\t" + appendCase(f[1], HexFormat.of().parseHex(f[2])));
            }
            System.exit(0);
        }
        try (PrintStream out = new PrintStream(new File(args[0], "batches.txt"))) { batches(out); }
        try (PrintStream out = new PrintStream(new File(args[0], "append.txt"))) { appendCases(out); }
        try (PrintStream out = new PrintStream(new File(args[0], "producer.txt"))) { producers(out); }
        System.exit(0);
    }
}
