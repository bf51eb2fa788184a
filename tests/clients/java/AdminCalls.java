import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The admin calls of the Java client; each step builds on what an earlier one made. */
final class AdminCalls {
    private final String bootstrap;
    private final String topic;
    private final String group;
    private final TopicPartition first;
    private final ConfigResource resource;
    private Admin admin;

    AdminCalls(String bootstrap, String prefix) {
        this.bootstrap = bootstrap;
        topic = prefix + "-topic";
        group = prefix + "-group";
        first = new TopicPartition(topic, 0);
        resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    void run() {
        try (var client = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin = client;
            step("describe_cluster", this::describeCluster);
            step("describe_features", () -> admin.describeFeatures().featureMetadata().get());
            step("describe_broker_config", this::describeBrokerConfig);
            step("create_with_config", this::createWithConfig);
            step("create_again_is_refused", this::createAgainIsRefused);
            step("describe_topic", this::describeTopic);
            step("unknown_topic_is_refused", this::unknownTopicIsRefused);
            step("incremental_alter", this::incrementalAlter);
            step("create_partitions", this::createPartitions);
            step("list_offsets", this::listOffsets);
            step("delete_records", this::deleteRecords);
            step("describe_log_dirs", this::describeLogDirs);
            step("groups", this::groups);
            step("group_offsets", this::groupOffsets);
            step("delete_group", this::deleteGroup);
            step("delete_topic", this::deleteTopic);
        }
    }

    private static void step(String name, Callable<Object> call) {
        try {
            call.call();
            Driver.say("ok", name, "");
        } catch (Exception | AssertionError error) {
            Driver.say("fail", name, error.toString().replaceAll("\\s+", " "));
        }
    }

    private static void expect(boolean holds, Object seen) {
        if (!holds) {
            throw new AssertionError("saw " + seen);
        }
    }

    private void until(String what, Callable<Boolean> holds) throws Exception {
        long deadline = System.nanoTime() + Duration.ofSeconds(10).toNanos();
        while (!holds.call()) {
            expect(System.nanoTime() < deadline, what + ": not within 10 s");
        }
    }

    private Object describeCluster() throws Exception {
        var cluster = admin.describeCluster();
        expect(!cluster.nodes().get().isEmpty() && cluster.controller().get() != null, cluster.nodes().get());
        expect(!cluster.clusterId().get().isEmpty(), cluster.clusterId().get());
        return null;
    }

    private Object describeBrokerConfig() throws Exception {
        var node = admin.describeCluster().nodes().get().iterator().next();
        var broker = new ConfigResource(ConfigResource.Type.BROKER, node.idString());
        var config = admin.describeConfigs(List.of(broker)).all().get().get(broker);
        expect(config.get("num.partitions") != null && config.get("log.retention.hours") != null, config.entries().size());
        return null;
    }

    private String config(String name) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name).value();
    }

    private Object createWithConfig() throws Exception {
        var made = admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1).configs(Map.of("retention.ms", "3600000"))));
        expect(made.numPartitions(topic).get() == 2, made.numPartitions(topic).get());
        expect(made.topicId(topic).get().equals(admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId()), "other id");
        expect(config("retention.ms").equals("3600000"), config("retention.ms"));
        return null;
    }

    private Object createAgainIsRefused() throws Exception {
        try {
            admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1))).all().get();
        } catch (ExecutionException error) {
            expect(error.getCause() instanceof TopicExistsException, error);
            return null;
        }
        throw new AssertionError("created twice");
    }

    private Object describeTopic() throws Exception {
        expect(admin.listTopics().names().get().contains(topic), "not listed");
        var described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        expect(described.partitions().size() == 2 && described.partitions().get(0).leader() != null, described);
        return null;
    }

    private Object unknownTopicIsRefused() throws Exception {
        try {
            admin.describeTopics(List.of(topic + "-unknown")).allTopicNames().get();
        } catch (ExecutionException error) {
            expect(error.getCause() instanceof UnknownTopicOrPartitionException, error);
            return null;
        }
        throw new AssertionError("described");
    }

    private void alter(AlterConfigOp.OpType kind, String name, String value) throws Exception {
        var change = new AlterConfigOp(new ConfigEntry(name, value), kind);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
    }

    private Object incrementalAlter() throws Exception {
        alter(AlterConfigOp.OpType.SET, "retention.bytes", "1000000");
        expect(config("retention.bytes").equals("1000000") && config("retention.ms").equals("3600000"), config("retention.bytes"));
        alter(AlterConfigOp.OpType.DELETE, "retention.bytes", "");
        expect(config("retention.bytes").equals("-1"), config("retention.bytes"));
        return null;
    }

    private Object createPartitions() throws Exception {
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get();
        until("4 partitions", () -> admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size() == 4);
        return null;
    }

    private ListOffsetsResult.ListOffsetsResultInfo offset(OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(first, spec)).all().get().get(first);
    }

    private Object listOffsets() throws Exception {
        try (var producer = new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < 100; number++) {
                producer.send(new ProducerRecord<>(topic, 0, 1_700_000_000_000L + number, "key", "value " + number));
            }
        }
        expect(offset(OffsetSpec.latest()).offset() == 100, offset(OffsetSpec.latest()));
        expect(offset(OffsetSpec.earliest()).offset() == 0, offset(OffsetSpec.earliest()));
        expect(offset(OffsetSpec.maxTimestamp()).offset() == 99, offset(OffsetSpec.maxTimestamp()));
        expect(offset(OffsetSpec.forTimestamp(1_700_000_000_033L)).offset() == 33, offset(OffsetSpec.forTimestamp(1_700_000_000_033L)));
        expect(offset(OffsetSpec.forTimestamp(1_700_000_001_000L)).offset() == -1, "an offset past the end");
        return null;
    }

    private Object deleteRecords() throws Exception {
        var low = admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(40))).lowWatermarks().get(first).get().lowWatermark();
        expect(low == 40, low);
        expect(offset(OffsetSpec.earliest()).offset() == 40, offset(OffsetSpec.earliest()));
        return null;
    }

    private Object describeLogDirs() throws Exception {
        var nodes = admin.describeCluster().nodes().get().stream().map(node -> node.id()).toList();
        long size = 0;
        for (var directories : admin.describeLogDirs(nodes).allDescriptions().get().values()) {
            for (var directory : directories.values()) {
                var replica = directory.replicaInfos().get(first);
                size += replica == null ? 0 : replica.size();
            }
        }
        expect(size > 0, size);
        return null;
    }

    private Object groups() throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "group.id", group, "auto.offset.reset", "earliest", "enable.auto.commit", false, "max.poll.records", 1);
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long deadline = System.nanoTime() + Driver.QUIET.toNanos();
            while (consumer.poll(Duration.ofSeconds(1)).isEmpty()) {
                expect(System.nanoTime() < deadline, "no record");
            }
            var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            expect(described.groupState() == GroupState.STABLE && described.members().size() == 1, described);
            try {
                admin.deleteConsumerGroups(List.of(group)).all().get();
                throw new AssertionError("deleted a group with a member");
            } catch (ExecutionException error) {
                expect(error.getCause() instanceof GroupNotEmptyException, error);
            }
            consumer.commitSync();
        }
        expect(admin.listGroups().all().get().stream().anyMatch(one -> one.groupId().equals(group)), "not listed");
        return null;
    }

    private Object groupOffsets() throws Exception {
        expect(kept() != null && kept().offset() == 41, kept());
        var moved = new OffsetAndMetadata(77, Optional.empty(), "moved");
        admin.alterConsumerGroupOffsets(group, Map.of(first, moved)).all().get();
        expect(kept().offset() == 77 && kept().metadata().equals("moved"), kept());
        admin.deleteConsumerGroupOffsets(group, Set.of(first)).all().get();
        expect(kept() == null, kept());
        admin.alterConsumerGroupOffsets(group, Map.of(first, moved)).all().get();
        return null;
    }

    private OffsetAndMetadata kept() throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(first);
    }

    private Object deleteGroup() throws Exception {
        admin.deleteConsumerGroups(List.of(group)).all().get();
        expect(admin.listGroups().all().get().stream().noneMatch(one -> one.groupId().equals(group)), "still listed");
        return null;
    }

    private Object deleteTopic() throws Exception {
        admin.deleteTopics(List.of(topic)).all().get();
        until("topic gone", () -> !admin.listTopics().names().get().contains(topic));
        return null;
    }
}
