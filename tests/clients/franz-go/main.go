// Driver of franz-go: the verbs of scenario.py.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	commitEvery = 1000
	quiet       = 30 * time.Second
	patience    = 60 * time.Second
)

var (
	out     = bufio.NewWriterSize(os.Stdout, 1<<20)
	outLock sync.Mutex
)

func say(fields ...string) {
	outLock.Lock()
	defer outLock.Unlock()
	out.WriteString(strings.Join(fields, "\t") + "\n")
}

func flush() {
	outLock.Lock()
	defer outLock.Unlock()
	out.Flush()
}

func text(data []byte) string {
	if data == nil {
		return "NULL"
	}
	return string(data)
}

func sayRecord(record *kgo.Record) {
	headers := make([]string, len(record.Headers))
	for at, header := range record.Headers {
		headers[at] = header.Key + "=" + text(header.Value)
	}
	say("R", number(record.Partition), strconv.FormatInt(record.Offset, 10), strconv.FormatInt(record.Timestamp.UnixMilli(), 10),
		text(record.Key), text(record.Value), strings.Join(headers, ","))
}

func number(partition int32) string { return strconv.Itoa(int(partition)) }

func integer(word string) int64 {
	value, err := strconv.ParseInt(word, 10, 64)
	must(err)
	return value
}

func must(err error) {
	if err != nil {
		flush()
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func client(bootstrap string, options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap))...)
	must(err)
	return made
}

func options(words []string) map[string]string {
	found := map[string]string{}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		found[name] = value
	}
	return found
}

func create(ctx context.Context, bootstrap, topic, partitions string) {
	admin := kadm.NewClient(client(bootstrap))
	defer admin.Close()
	_, err := admin.CreateTopic(ctx, int32(integer(partitions)), 1, nil, topic)
	must(err)
}

func offsets(ctx context.Context, bootstrap, topic string) {
	admin := kadm.NewClient(client(bootstrap))
	defer admin.Close()
	begins, err := admin.ListStartOffsets(ctx, topic)
	must(err)
	ends, err := admin.ListEndOffsets(ctx, topic)
	must(err)
	for _, begin := range begins.Offsets().Sorted() {
		end, _ := ends.Lookup(topic, begin.Partition)
		must(errors.Join(end.Err))
		say("O", number(begin.Partition), fmt.Sprint(begin.At), fmt.Sprint(end.Offset))
	}
}

func producer(bootstrap string, fields []string) *kgo.Client {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
	opts := []kgo.Opt{
		kgo.ProducerBatchCompression(codecs[fields[1]]), kgo.RequiredAcks(acks[fields[2]]),
		kgo.ProducerLinger(20 * time.Millisecond), kgo.MaxBufferedRecords(1_000_000),
	}
	if fields[3] != "1" {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	return client(bootstrap, opts...)
}

func produce(ctx context.Context, bootstrap, topic string) {
	var (
		sender *kgo.Client
		sent   int
		lost   error
		lock   sync.Mutex
	)
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		fields := strings.Split(string(bytes.TrimSuffix(line, []byte("\n"))), "\t")
		switch fields[0] {
		case "@open":
			sender, sent = producer(bootstrap, fields), 0
		case "@close":
			must(sender.Flush(ctx))
			sender.Close()
			must(lost)
			say("SENT", strconv.Itoa(sent))
			flush()
		default:
			record := &kgo.Record{Topic: topic, Key: []byte(fields[0]), Value: []byte(fields[1])}
			for _, pair := range strings.Split(fields[2], ",") {
				name, value, _ := strings.Cut(pair, "=")
				record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
			}
			sent++
			sender.Produce(ctx, record, func(_ *kgo.Record, err error) {
				lock.Lock()
				lost = errors.Join(lost, err)
				lock.Unlock()
			})
		}
	}
}

func read(ctx context.Context, bootstrap, topic, count string, words []string) {
	wanted := options(words)
	start := kgo.NewOffset().AtStart()
	if stamp, given := wanted["timestamp"]; given {
		start = kgo.NewOffset().AfterMilli(integer(stamp))
	} else if offset, given := wanted["offset"]; given {
		start = kgo.NewOffset().At(integer(offset))
	}
	places := map[int32]kgo.Offset{}
	for partition := range int32(6) {
		if only, given := wanted["partition"]; !given || only == number(partition) {
			places[partition] = start
		}
	}
	reader := client(bootstrap, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: places}))
	defer reader.Close()
	for left := integer(count); left > 0; {
		waiting, stop := context.WithTimeout(ctx, quiet)
		fetches := reader.PollRecords(waiting, int(left))
		stop()
		if waiting.Err() != nil && fetches.NumRecords() == 0 {
			return
		}
		must(fetches.Err())
		fetches.EachRecord(sayRecord)
		left -= int64(fetches.NumRecords())
	}
}

func partitions(of map[string][]int32) string {
	var found []string
	for _, some := range of {
		for _, partition := range some {
			found = append(found, number(partition))
		}
	}
	return strings.Join(found, ",")
}

// member commits what it printed, never what it only fetched: rebalances wait for the loop between two polls.
func member(ctx context.Context, bootstrap, topic, group string, words []string) {
	wanted := options(words)
	taken := map[int32]kgo.EpochOffset{}
	commit := func(ctx context.Context, from *kgo.Client) {
		if len(taken) > 0 {
			from.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: taken}, nil)
			clear(taken)
		}
	}
	opts := []kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(time.Duration(integer(wanted["session"])) * time.Millisecond), kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			say("ASSIGNED", partitions(given))
			flush()
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, from *kgo.Client, back map[string][]int32) {
			commit(ctx, from)
			say("REVOKED", partitions(back))
			flush()
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			clear(taken)
			say("REVOKED", partitions(lost))
			flush()
		}),
	}
	if instance, given := wanted["instance"]; given {
		opts = append(opts, kgo.InstanceID(instance))
	}
	if wanted["assignor"] == "cooperative-sticky" {
		opts = append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	consumer := client(bootstrap, opts...)
	running, stop := context.WithCancel(ctx)
	ordered := make(chan struct{})
	go func() {
		orders := bufio.NewScanner(os.Stdin)
		for orders.Scan() {
			close(ordered)
		}
		stop()
	}()
	since := 0
	for running.Err() == nil {
		waiting, done := context.WithTimeout(running, 200*time.Millisecond)
		fetches := consumer.PollRecords(waiting, 500)
		done()
		for _, failure := range fetches.Errors() {
			if !errors.Is(failure.Err, context.DeadlineExceeded) && !errors.Is(failure.Err, context.Canceled) {
				say("TROUBLE", failure.Err.Error())
			}
		}
		fetches.EachRecord(func(record *kgo.Record) {
			sayRecord(record)
			taken[record.Partition] = kgo.EpochOffset{Epoch: record.LeaderEpoch, Offset: record.Offset + 1}
			since++
		})
		flush()
		due := since >= commitEvery
		select {
		case <-ordered:
			due = true
		default:
		}
		if due {
			commit(ctx, consumer)
			since = 0
		}
		consumer.AllowRebalance()
	}
	consumer.Close()
	say("CLOSED")
}

func main() {
	bootstrap, verb, rest := os.Args[1], os.Args[2], os.Args[3:]
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
	defer stop()
	defer flush()
	switch verb {
	case "create":
		create(ctx, bootstrap, rest[0], rest[1])
	case "offsets":
		offsets(ctx, bootstrap, rest[0])
	case "produce":
		produce(ctx, bootstrap, rest[0])
	case "read":
		read(ctx, bootstrap, rest[0], rest[1], rest[2:])
	case "member":
		member(ctx, bootstrap, rest[0], rest[1], rest[2:])
	case "admin":
		administer(ctx, bootstrap, rest[0])
	default:
		must(fmt.Errorf("unknown verb %s in %v", verb, sort.StringSlice(os.Args)))
	}
}
