package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// administer runs the admin calls of the client and tells how each went.
func administer(ctx context.Context, bootstrap, prefix string) {
	run := &adminRun{bootstrap: bootstrap, topic: prefix + "-topic", group: prefix + "-group"}
	run.admin = kadm.NewClient(client(bootstrap))
	defer run.admin.Close()
	steps := []struct {
		name string
		step func(context.Context) error
	}{
		{"api_versions", run.apiVersions},
		{"describe_cluster", run.describeCluster},
		{"create_with_config", run.createWithConfig},
		{"create_again_is_refused", run.createAgainIsRefused},
		{"describe_topic", run.describeTopic},
		{"incremental_alter", run.incrementalAlter},
		{"alter_all", run.alterAll},
		{"create_partitions", run.createPartitions},
		{"list_offsets", run.listOffsets},
		{"delete_records", run.deleteRecords},
		{"describe_log_dirs", run.describeLogDirs},
		{"groups", run.groups},
		{"group_offsets", run.groupOffsets},
		{"delete_group", run.deleteGroup},
		{"delete_topic", run.deleteTopic},
	}
	for _, one := range steps {
		if err := one.step(ctx); err != nil {
			say("fail", one.name, strings.Join(strings.Fields(err.Error()), " "))
		} else {
			say("ok", one.name, "")
		}
	}
}

type adminRun struct {
	bootstrap, topic, group string
	admin                   *kadm.Client
}

func (run *adminRun) config(ctx context.Context, name string) (string, error) {
	described, err := run.admin.DescribeTopicConfigs(ctx, run.topic)
	if err != nil {
		return "", err
	}
	resource, err := described.On(run.topic, nil)
	if err != nil {
		return "", err
	}
	for _, entry := range resource.Configs {
		if entry.Key == name {
			return entry.MaybeValue(), resource.Err
		}
	}
	return "", fmt.Errorf("no config %s", name)
}

func (run *adminRun) expectConfig(ctx context.Context, name, value string) error {
	if seen, err := run.config(ctx, name); err != nil || seen != value {
		return fmt.Errorf("%s is %q, not %q (%v)", name, seen, value, err)
	}
	return nil
}

func (run *adminRun) until(what string, holds func() (bool, error)) error {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if held, err := holds(); err != nil || held {
			return err
		}
	}
	return fmt.Errorf("%s: not within 10 s", what)
}

func (run *adminRun) apiVersions(ctx context.Context) error {
	versions, err := run.admin.ApiVersions(ctx)
	if err != nil {
		return err
	}
	for _, node := range versions.Sorted() {
		if node.Err != nil {
			return node.Err
		}
	}
	return nil
}

func (run *adminRun) describeCluster(ctx context.Context) error {
	metadata, err := run.admin.BrokerMetadata(ctx)
	if err == nil && (len(metadata.Brokers) == 0 || metadata.Cluster == "" || metadata.Controller < 0) {
		err = fmt.Errorf("saw %+v", metadata)
	}
	return err
}

func (run *adminRun) createWithConfig(ctx context.Context) error {
	hour := "3600000"
	if _, err := run.admin.CreateTopic(ctx, 2, 1, map[string]*string{"retention.ms": &hour}, run.topic); err != nil {
		return err
	}
	return run.expectConfig(ctx, "retention.ms", hour)
}

func (run *adminRun) createAgainIsRefused(ctx context.Context) error {
	if _, err := run.admin.CreateTopic(ctx, 2, 1, nil, run.topic); !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("created twice: %v", err)
	}
	return nil
}

func (run *adminRun) describeTopic(ctx context.Context) error {
	found, err := run.admin.ListTopics(ctx, run.topic)
	if err == nil && len(found[run.topic].Partitions) != 2 {
		err = fmt.Errorf("saw %+v", found)
	}
	return err
}

func (run *adminRun) incrementalAlter(ctx context.Context) error {
	value := "1000000"
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.bytes", Value: &value}}
	answers, err := run.admin.AlterTopicConfigs(ctx, change, run.topic)
	if err == nil {
		_, err = answers.On(run.topic, func(one *kadm.AlterConfigsResponse) error { return one.Err })
	}
	return errors.Join(err, run.expectConfig(ctx, "retention.bytes", value), run.expectConfig(ctx, "retention.ms", "3600000"))
}

func (run *adminRun) alterAll(ctx context.Context) error {
	value := "500000"
	change := []kadm.AlterConfig{{Name: "max.message.bytes", Value: &value}}
	answers, err := run.admin.AlterTopicConfigsState(ctx, change, run.topic)
	if err == nil {
		_, err = answers.On(run.topic, func(one *kadm.AlterConfigsResponse) error { return one.Err })
	}
	return errors.Join(err, run.expectConfig(ctx, "max.message.bytes", value), run.expectConfig(ctx, "retention.bytes", "-1"))
}

func (run *adminRun) createPartitions(ctx context.Context) error {
	answers, err := run.admin.CreatePartitions(ctx, 2, run.topic)
	if err = errors.Join(err, answers.Error()); err != nil {
		return err
	}
	return run.until("4 partitions", func() (bool, error) {
		found, err := run.admin.ListTopics(ctx, run.topic)
		return len(found[run.topic].Partitions) == 4, err
	})
}

func (run *adminRun) listOffsets(ctx context.Context) error {
	sender := client(run.bootstrap, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer sender.Close()
	for number := range 100 {
		record := &kgo.Record{Topic: run.topic, Value: fmt.Append(nil, number)}
		if err := sender.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
	}
	ends, err := run.admin.ListEndOffsets(ctx, run.topic)
	if err != nil {
		return err
	}
	if end, _ := ends.Lookup(run.topic, 0); end.Offset != 100 {
		return fmt.Errorf("end %+v", end)
	}
	newest, err := run.admin.ListMaxTimestampOffsets(ctx, run.topic)
	if err != nil {
		return err
	}
	if one, _ := newest.Lookup(run.topic, 0); one.Offset < 0 || one.Offset >= 100 || one.Timestamp <= 0 {
		return fmt.Errorf("newest %+v", one)
	}
	return nil
}

func (run *adminRun) deleteRecords(ctx context.Context) error {
	upTo := kadm.Offsets{}
	upTo.AddOffset(run.topic, 0, 40, -1)
	answers, err := run.admin.DeleteRecords(ctx, upTo)
	if err = errors.Join(err, answers.Error()); err != nil {
		return err
	}
	begins, err := run.admin.ListStartOffsets(ctx, run.topic)
	if begin, _ := begins.Lookup(run.topic, 0); err == nil && begin.Offset != 40 {
		err = fmt.Errorf("begin %+v", begin)
	}
	return err
}

func (run *adminRun) describeLogDirs(ctx context.Context) error {
	nodes, err := run.admin.DescribeAllLogDirs(ctx, kadm.TopicsSet{run.topic: {0: {}}})
	if err != nil {
		return err
	}
	var size int64
	for _, directories := range nodes {
		if err := directories.Error(); err != nil {
			return err
		}
		if one, there := directories.LookupPartition(run.topic, 0); there {
			size += one.Size
		}
	}
	if size <= 0 {
		return fmt.Errorf("saw %+v", nodes)
	}
	return nil
}

func (run *adminRun) groups(ctx context.Context) error {
	consumer := client(run.bootstrap, kgo.ConsumerGroup(run.group), kgo.ConsumeTopics(run.topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer consumer.Close()
	waiting, stop := context.WithTimeout(ctx, quiet)
	defer stop()
	fetches := consumer.PollRecords(waiting, 1)
	if err := errors.Join(fetches.Err(), waiting.Err()); err != nil {
		return err
	}
	described, err := run.admin.DescribeGroups(ctx, run.group)
	if err != nil {
		return err
	}
	if one := described[run.group]; one.State != "Stable" || len(one.Members) != 1 {
		return fmt.Errorf("saw %+v", one)
	}
	if err := consumer.CommitRecords(ctx, fetches.Records()...); err != nil {
		return err
	}
	listed, err := run.admin.ListGroups(ctx)
	if _, there := listed[run.group]; err == nil && !there {
		err = fmt.Errorf("saw %+v", listed)
	}
	return err
}

func (run *adminRun) groupOffsets(ctx context.Context) error {
	expect := func(offset int64, metadata string) error {
		kept, err := run.admin.FetchOffsets(ctx, run.group)
		if one, _ := kept.Lookup(run.topic, 0); err == nil && (one.At != offset || !strings.HasPrefix(one.Metadata, metadata)) {
			err = fmt.Errorf("saw %+v, not %d with %s", one, offset, metadata)
		}
		return err
	}
	if err := expect(41, "kgo-"); err != nil {
		return err
	}
	moved := kadm.Offsets{}
	moved.Add(kadm.Offset{Topic: run.topic, Partition: 0, At: 77, LeaderEpoch: -1, Metadata: "moved"})
	answers, err := run.admin.CommitOffsets(ctx, run.group, moved)
	if err = errors.Join(err, answers.Error()); err != nil {
		return err
	}
	if err := expect(77, "moved"); err != nil {
		return err
	}
	deleted, err := run.admin.DeleteOffsets(ctx, run.group, kadm.TopicsSet{run.topic: {0: {}}})
	if err = errors.Join(err, deleted.Error()); err != nil {
		return err
	}
	kept, err := run.admin.FetchOffsets(ctx, run.group)
	if _, there := kept.Lookup(run.topic, 0); there {
		err = fmt.Errorf("offset still there: %+v", kept)
	}
	return err
}

func (run *adminRun) deleteGroup(ctx context.Context) error {
	// The last member has left before: Close waits for it.
	_, err := run.admin.DeleteGroup(ctx, run.group)
	if errors.Is(err, kerr.GroupIDNotFound) { // a group without offsets and members may be gone already
		err = nil
	}
	listed, listErr := run.admin.ListGroups(ctx)
	if _, there := listed[run.group]; there {
		err = errors.Join(err, fmt.Errorf("saw %+v", listed))
	}
	return errors.Join(err, listErr)
}

func (run *adminRun) deleteTopic(ctx context.Context) error {
	if _, err := run.admin.DeleteTopic(ctx, run.topic); err != nil {
		return err
	}
	return run.until("topic gone", func() (bool, error) {
		found, err := run.admin.ListTopics(ctx)
		return !found.Has(run.topic), err
	})
}
