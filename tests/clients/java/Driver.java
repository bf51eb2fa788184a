import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Driver of the Java client: the verbs of scenario.py. */
public final class Driver {
    static final int COMMIT_EVERY = 1000;
    static final Duration QUIET = Duration.ofSeconds(30);
    static final PrintStream OUT = new PrintStream(new java.io.BufferedOutputStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), 1 << 20), false, UTF_8);

    private final String bootstrap;

    private Driver(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] words) throws Exception {
        var driver = new Driver(words[0]);
        var rest = List.of(words).subList(2, words.length);
        switch (words[1]) {
            case "create" -> driver.create(rest.get(0), Integer.parseInt(rest.get(1)));
            case "offsets" -> driver.offsets(rest.get(0));
            case "produce" -> driver.produce(rest.get(0));
            case "read" -> driver.read(rest.get(0), Integer.parseInt(rest.get(1)), options(rest.subList(2, rest.size())));
            case "member" -> driver.member(rest.get(0), rest.get(1), options(rest.subList(2, rest.size())));
            case "admin" -> new AdminCalls(words[0], rest.get(0)).run();
            default -> throw new IllegalArgumentException(words[1]);
        }
        OUT.flush();
    }

    static void say(Object... fields) {
        OUT.print(java.util.Arrays.stream(fields).map(String::valueOf).collect(Collectors.joining("\t")) + "\n");
    }

    static Map<String, String> options(List<String> words) {
        return words.stream().map(word -> word.split("=", 2)).collect(Collectors.toMap(pair -> pair[0], pair -> pair[1]));
    }

    static String text(byte[] data) {
        return data == null ? "NULL" : new String(data, UTF_8);
    }

    static void sayRecord(ConsumerRecord<byte[], byte[]> record) {
        var headers = new ArrayList<String>();
        for (Header header : record.headers()) {
            headers.add(header.key() + "=" + text(header.value()));
        }
        say("R", record.partition(), record.offset(), record.timestamp(), text(record.key()), text(record.value()), String.join(",", headers));
    }

    private void create(String topic, int partitions) throws Exception {
        try (var admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> more) {
        var config = new HashMap<String, Object>(Map.of("bootstrap.servers", bootstrap, "enable.auto.commit", false, "auto.offset.reset", "earliest"));
        config.putAll(more);
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static List<TopicPartition> partitions(String topic) {
        return IntStream.range(0, 6).mapToObj(partition -> new TopicPartition(topic, partition)).toList();
    }

    private void offsets(String topic) {
        try (var consumer = consumer(Map.of())) {
            var begins = consumer.beginningOffsets(partitions(topic));
            var ends = consumer.endOffsets(partitions(topic));
            partitions(topic).forEach(place -> say("O", place.partition(), begins.get(place), ends.get(place)));
        }
    }

    private void produce(String topic) throws Exception {
        KafkaProducer<byte[], byte[]> producer = null;
        var sent = new ArrayList<Future<RecordMetadata>>();
        var lines = new BufferedReader(new InputStreamReader(System.in, UTF_8), 1 << 20);
        for (String line; (line = lines.readLine()) != null; ) {
            var fields = line.split("\t", -1);
            if (fields[0].equals("@open")) {
                var config = new HashMap<String, Object>();
                config.put("bootstrap.servers", bootstrap);
                config.put("compression.type", fields[1]);
                config.put("acks", fields[2]);
                if (!fields[3].equals("1")) {
                    config.put("enable.idempotence", false); // it is the default with acks=all
                }
                config.put("linger.ms", 20);
                producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
                sent.clear();
            } else if (fields[0].equals("@close")) {
                producer.close();
                for (var one : sent) {
                    one.get();
                }
                say("SENT", sent.size());
                OUT.flush();
            } else {
                var record = new ProducerRecord<>(topic, fields[0].getBytes(UTF_8), fields[1].getBytes(UTF_8));
                for (var header : fields[2].split(",")) {
                    var pair = header.split("=", 2);
                    record.headers().add(pair[0], pair[1].getBytes(UTF_8));
                }
                sent.add(producer.send(record));
            }
        }
    }

    private void read(String topic, int count, Map<String, String> wanted) {
        try (var consumer = consumer(Map.of())) {
            var places = wanted.containsKey("partition")
                ? List.of(new TopicPartition(topic, Integer.parseInt(wanted.get("partition"))))
                : partitions(topic);
            consumer.assign(places);
            if (wanted.containsKey("timestamp")) {
                var stamp = Long.parseLong(wanted.get("timestamp"));
                var found = consumer.offsetsForTimes(places.stream().collect(Collectors.toMap(place -> place, place -> stamp)));
                found.forEach((place, start) -> consumer.seek(place, start.offset()));
            } else if (wanted.containsKey("offset")) {
                consumer.seek(places.get(0), Long.parseLong(wanted.get("offset")));
            } else {
                consumer.seekToBeginning(places);
            }
            for (int left = count; left > 0; ) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(QUIET);
                if (polled.isEmpty()) {
                    return;
                }
                for (var record : polled) {
                    if (left-- > 0) {
                        sayRecord(record);
                    }
                }
            }
        }
    }

    private void member(String topic, String group, Map<String, String> wanted) throws Exception {
        var config = new HashMap<String, Object>(Map.of("group.id", group, "session.timeout.ms", wanted.get("session"), "heartbeat.interval.ms", 500));
        config.put("partition.assignment.strategy", RangeAssignor.class.getName());
        if (wanted.containsKey("instance")) {
            config.put("group.instance.id", wanted.get("instance"));
        }
        if ("cooperative-sticky".equals(wanted.get("assignor"))) {
            config.put("partition.assignment.strategy", CooperativeStickyAssignor.class.getName());
        }
        var orders = new Orders();
        orders.start();
        try (var consumer = consumer(config)) {
            var taken = new HashMap<TopicPartition, OffsetAndMetadata>();
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> given) {
                    say("ASSIGNED", numbers(given));
                    OUT.flush();
                }

                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> back) {
                    commit(consumer, taken);
                    say("REVOKED", numbers(back));
                    OUT.flush();
                }

                @Override
                public void onPartitionsLost(Collection<TopicPartition> lost) {
                    taken.clear();
                    say("REVOKED", numbers(lost));
                    OUT.flush();
                }
            });
            int since = 0;
            while (!orders.leave) {
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    sayRecord(record);
                    taken.put(new TopicPartition(topic, record.partition()), new OffsetAndMetadata(record.offset() + 1, Optional.empty(), ""));
                    since++;
                }
                OUT.flush();
                if (since >= COMMIT_EVERY || orders.commit) {
                    commit(consumer, taken);
                    since = 0;
                }
            }
        }
        say("CLOSED");
    }

    private static void commit(KafkaConsumer<byte[], byte[]> consumer, Map<TopicPartition, OffsetAndMetadata> taken) {
        if (!taken.isEmpty()) {
            consumer.commitSync(taken);
            taken.clear();
        }
    }

    private static String numbers(Collection<TopicPartition> places) {
        return places.stream().map(place -> String.valueOf(place.partition())).collect(Collectors.joining(","));
    }

    /** What standard input asks of a group member: to commit after each poll from now on, and at its end to leave. */
    private static final class Orders extends Thread {
        volatile boolean commit;
        volatile boolean leave;

        Orders() {
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                while (System.in.read() >= 0) {
                    commit = true;
                }
            } catch (IOException error) {
                error.printStackTrace();
            }
            leave = true;
        }
    }
}
