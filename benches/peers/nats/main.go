// Publishes messages to a JetStream stream, asynchronously and with so many under way, and prints what the window has brought:
// `MB_PER_S MESSAGES_PER_S SERVER_CPU_S_PER_GB`.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// USER_HZ, which is 100 on every Linux.
const ticksPerSecond = 100

func main() {
	url := flag.String("url", "", "of the server")
	pid := flag.Int("pid", 0, "of the server")
	size := flag.Int("size", 1024, "bytes of a message")
	pending := flag.Int("pending", 1024, "messages under way")
	keep := flag.Int64("keep", 512<<20, "bytes the stream keeps")
	warmup := flag.Duration("warmup", 5*time.Second, "before the window")
	window := flag.Duration("window", 5*time.Second, "what is measured")
	flag.Parse()

	connection, err := nats.Connect(*url)
	check(err)
	defer connection.Close()
	refused := make(chan error, 1)
	stream, err := jetstream.New(connection,
		jetstream.WithPublishAsyncMaxPending(*pending),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) {
			select {
			case refused <- err:
			default:
			}
		}))
	check(err)
	_, err = stream.CreateStream(context.Background(), jetstream.StreamConfig{
		Name:     "bench",
		Subjects: []string{"bench"},
		Storage:  jetstream.FileStorage,
		MaxBytes: *keep,
		Discard:  jetstream.DiscardOld,
	})
	check(err)
	message := make([]byte, *size)
	rand.New(rand.NewSource(1)).Read(message)

	publish(stream, message, *warmup, refused)
	before, start := cpuSeconds(*pid), time.Now()
	count := publish(stream, message, *window, refused)
	seconds, cpu := time.Since(start).Seconds(), cpuSeconds(*pid)-before
	megabytes := float64(count) * float64(*size) / 1e6
	fmt.Printf("%.1f %.0f %.3f\n", megabytes/seconds, float64(count)/seconds, cpu/(megabytes/1e3))
}

// publish sends for so long and waits for the last answer; how many messages that were.
func publish(stream jetstream.JetStream, message []byte, length time.Duration, refused chan error) int {
	end := time.Now().Add(length)
	count := 0
	for time.Now().Before(end) {
		// Waits where so many are under way.
		_, err := stream.PublishAsync("bench", message, jetstream.WithStallWait(time.Minute))
		check(err)
		count++
	}
	select {
	case <-stream.PublishAsyncComplete():
	case <-time.After(time.Minute):
		log.Fatal("messages were sent and not answered within a minute")
	}
	select {
	case err := <-refused:
		log.Fatalf("refused: %v", err)
	default:
	}
	return count
}

func cpuSeconds(pid int) float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	check(err)
	// The name in front may hold blanks and brackets.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, err := strconv.ParseFloat(fields[11], 64)
	check(err)
	system, err := strconv.ParseFloat(fields[12], 64)
	check(err)
	return (user + system) / ticksPerSecond
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
