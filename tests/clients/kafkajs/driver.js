// Driver of KafkaJS: the verbs of scenario.py.
'use strict'

const readline = require('readline')
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')
const snappy = require('snappyjs')
const lz4 = require('lz4js')
const xxh32 = require('lz4js/xxh32')
const { ZstdCodec } = require('zstd-codec')

const PARTITIONS = [0, 1, 2, 3, 4, 5]
const COMMIT_EVERY = 1000
const QUIET_MS = 30000
const CHUNK = 1000

const [bootstrap, verb, ...rest] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'ringlog-tests', brokers: [bootstrap], logLevel: logLevel.ERROR, requestTimeout: 30000 })

// Producers of snappy write it framed (the xerial form) or plain; both must be read.
const XERIAL = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00])
function unsnap(data) {
  if (!data.subarray(0, 8).equals(XERIAL)) return snappy.uncompress(data)
  const parts = []
  for (let at = 16; at < data.length; ) {
    const size = data.readUInt32BE(at)
    parts.push(snappy.uncompress(data.subarray(at + 4, at + 4 + size)))
    at += 4 + size
  }
  return Buffer.concat(parts)
}
CompressionCodecs[CompressionTypes.Snappy] = () => ({
  compress: async encoder => snappy.compress(encoder.buffer),
  decompress: async data => unsnap(data),
})
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => independentBlocks(lz4.compress(encoder.buffer)),
  decompress: async data => Buffer.from(lz4.decompress(data)),
})
// The library marks its frames as having linked blocks, which Kafka refuses. A batch here is one block.
function independentBlocks(frame) {
  frame[4] |= 0x20
  frame[6] = (xxh32.hash(0, frame, 4, 2) >>> 8) & 0xff
  return Buffer.from(frame)
}
let simpleZstd = null
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from(simpleZstd.compress(encoder.buffer)),
  decompress: async data => Buffer.from(simpleZstd.decompress(data)),
})
const CODECS = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }

const say = (...fields) => process.stdout.write(fields.join('\t') + '\n')
const text = data => (data === null ? 'NULL' : data.toString())
const options = words => Object.fromEntries(words.map(word => word.split('=')))

function sayRecords(partition, messages) {
  const lines = messages.map(message => {
    const headers = Object.entries(message.headers).map(([name, value]) => `${name}=${text(value)}`)
    return `R\t${partition}\t${message.offset}\t${message.timestamp}\t${text(message.key)}\t${text(message.value)}\t${headers.join(',')}\n`
  })
  process.stdout.write(lines.join(''))
}

async function withAdmin(work) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

async function create(topic, partitions) {
  await withAdmin(admin => admin.createTopics({ topics: [{ topic, numPartitions: Number(partitions), replicationFactor: 1 }] }))
}

async function offsets(topic) {
  const found = await withAdmin(admin => admin.fetchTopicOffsets(topic))
  found.sort((a, b) => a.partition - b.partition).forEach(({ partition, low, high }) => say('O', partition, low, high))
}

async function produce(topic) {
  let producer, settings, waiting, sent
  const send = async () => {
    await producer.send({ topic, acks: settings.acks, compression: settings.compression, messages: waiting })
    sent += waiting.length
    waiting = []
  }
  for await (const line of readline.createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    const fields = line.split('\t')
    if (fields[0] === '@open') {
      settings = { compression: CompressionTypes[CODECS[fields[1]]], acks: fields[2] === 'all' ? -1 : Number(fields[2]) }
      producer = kafka.producer({ idempotent: fields[3] === '1', maxInFlightRequests: 1 })
      await producer.connect()
      waiting = []
      sent = 0
    } else if (fields[0] === '@close') {
      if (waiting.length) await send()
      await producer.disconnect()
      say('SENT', sent)
    } else {
      const headers = Object.fromEntries(fields[2].split(',').map(pair => pair.split('=')))
      waiting.push({ key: fields[0], value: fields[1], headers })
      if (waiting.length === CHUNK) await send()
    }
  }
}

// KafkaJS reads only as a group: a group of its own, whose committed offsets say where it begins.
async function read(topic, count, ...words) {
  const wanted = options(words)
  const groupId = `read-${process.pid}-${Date.now()}`
  await withAdmin(async admin => {
    let places = []
    if (wanted.timestamp !== undefined) {
      places = await admin.fetchTopicOffsetsByTimestamp(topic, Number(wanted.timestamp))
    } else if (wanted.offset !== undefined) {
      places = (await admin.fetchTopicOffsets(topic)).map(({ partition, high }) => ({
        partition,
        offset: partition === Number(wanted.partition) ? wanted.offset : high,
      }))
    }
    if (places.length) {
      const partitions = places.map(({ partition, offset }) => ({ partition, offset: String(offset) }))
      await admin.setOffsets({ groupId, topic, partitions })
    }
  })
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 200 })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  let left = Number(count)
  await new Promise((resolve, reject) => {
    let quiet = setTimeout(resolve, QUIET_MS)
    consumer.on(consumer.events.CRASH, event => event.payload.restart || reject(event.payload.error))
    consumer.run({
      autoCommit: false,
      eachBatch: async ({ batch }) => {
        const messages = batch.messages.slice(0, left)
        sayRecords(batch.partition, messages)
        left -= messages.length
        clearTimeout(quiet)
        quiet = setTimeout(resolve, left === 0 ? 0 : QUIET_MS)
      },
    })
  })
  await consumer.disconnect()
}

async function member(topic, group, ...words) {
  const sessionTimeout = Number(options(words).session)
  const consumer = kafka.consumer({ groupId: group, sessionTimeout, heartbeatInterval: 500, rebalanceTimeout: 10000, maxWaitTimeInMs: 500 })
  let owned = []
  const taken = new Map()
  let ordered = false
  const commit = () => consumer.commitOffsets([...taken].map(([partition, offset]) => ({ topic, partition, offset })))
  const revoke = () => {
    if (owned.length) say('REVOKED', owned.join(','))
    owned = []
    taken.clear()
  }
  consumer.on(consumer.events.REBALANCING, revoke)
  consumer.on(consumer.events.GROUP_JOIN, event => {
    revoke()
    owned = event.payload.memberAssignment[topic] || []
    say('ASSIGNED', owned.join(','))
  })
  consumer.on(consumer.events.CRASH, event => event.payload.restart || say('TROUBLE', event.payload.error))
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommitThreshold: COMMIT_EVERY,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat, commitOffsetsIfNecessary, isRunning, isStale }) => {
      for (let at = 0; at < batch.messages.length && isRunning() && !isStale(); at += 500) {
        const part = batch.messages.slice(at, at + 500)
        sayRecords(batch.partition, part)
        resolveOffset(part[part.length - 1].offset)
        taken.set(batch.partition, String(BigInt(part[part.length - 1].offset) + 1n))
        await (ordered ? commit() : commitOffsetsIfNecessary())
        await heartbeat()
      }
    },
  })
  for await (const order of readline.createInterface({ input: process.stdin })) {
    if (order !== 'commit') throw new Error(`unknown order ${order}`)
    ordered = true
    await commit()
  }
  await consumer.disconnect()
  say('CLOSED')
}

async function admin(prefix) {
  const topic = `${prefix}-topic`
  const group = `${prefix}-group`
  const assert = (holds, seen) => {
    if (!holds) throw new Error(`saw ${JSON.stringify(seen)}`)
  }
  const until = async (what, holds) => {
    const deadline = Date.now() + 10000
    while (!(await holds())) if (Date.now() > deadline) throw new Error(`${what} within 10 s`)
  }
  await withAdmin(async client => {
    const config = async name => {
      const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic }]
      const told = await client.describeConfigs({ resources, includeSynonyms: false })
      return told.resources[0].configEntries.find(entry => entry.configName === name).configValue
    }
    const steps = {
      describe_cluster: async () => {
        const cluster = await client.describeCluster()
        assert(cluster.brokers.length > 0 && cluster.clusterId && cluster.controller !== null, cluster)
        return `${cluster.brokers.length} nodes`
      },
      create_with_config: async () => {
        const configEntries = [{ name: 'retention.ms', value: '3600000' }]
        assert(await client.createTopics({ topics: [{ topic, numPartitions: 2, replicationFactor: 1, configEntries }] }))
        assert((await config('retention.ms')) === '3600000')
      },
      create_again_is_refused: async () => assert((await client.createTopics({ topics: [{ topic }] })) === false),
      topic_metadata: async () => {
        assert((await client.listTopics()).includes(topic))
        const { topics } = await client.fetchTopicMetadata({ topics: [topic] })
        assert(topics[0].partitions.length === 2, topics)
      },
      alter_configs: async () => {
        const configEntries = [{ name: 'max.message.bytes', value: '500000' }]
        await client.alterConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }] })
        assert((await config('max.message.bytes')) === '500000')
        assert((await config('retention.ms')) === '604800000')
      },
      create_partitions: async () => {
        await client.createPartitions({ topicPartitions: [{ topic, count: 4 }] })
        await until('4 partitions', async () => (await client.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length === 4)
      },
      delete_records: async () => {
        const producer = kafka.producer()
        await producer.connect()
        const messages = Array.from({ length: 100 }, (_, number) => ({ value: String(number), partition: 0 }))
        await producer.send({ topic, messages })
        await producer.disconnect()
        await client.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '40' }] })
        const place = (await client.fetchTopicOffsets(topic)).find(one => one.partition === 0)
        assert(place.low === '40' && place.high === '100', place)
      },
      groups: async () => {
        const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 200 })
        await consumer.connect()
        await consumer.subscribe({ topic, fromBeginning: true })
        const first = await new Promise((resolve, reject) => {
          setTimeout(() => reject(new Error('no record')), QUIET_MS).unref()
          consumer.run({ autoCommit: false, eachMessage: async ({ message }) => resolve(message.offset) })
        })
        assert(first === '40', first)
        const { groups } = await client.describeGroups([group])
        assert(groups[0].state === 'Stable' && groups[0].members.length === 1, groups)
        await consumer.commitOffsets([{ topic, partition: 0, offset: '41' }])
        await consumer.disconnect()
        assert((await client.listGroups()).groups.some(one => one.groupId === group))
      },
      group_offsets: async () => {
        const kept = async () =>
          (await client.fetchOffsets({ groupId: group, topics: [topic] }))[0].partitions.find(one => one.partition === 0).offset
        assert((await kept()) === '41', await kept())
        await client.setOffsets({ groupId: group, topic, partitions: [{ partition: 0, offset: '77' }] })
        assert((await kept()) === '77', await kept())
        await client.resetOffsets({ groupId: group, topic, earliest: true })
        assert(['40', '-2'].includes(await kept()), await kept())
      },
      delete_group: async () => {
        await client.deleteGroups([group])
        assert(!(await client.listGroups()).groups.some(one => one.groupId === group))
      },
      delete_topic: async () => {
        await client.deleteTopics({ topics: [topic] })
        await until('topic gone', async () => !(await client.listTopics()).includes(topic))
      },
    }
    for (const [name, step] of Object.entries(steps)) {
      try {
        say('ok', name, (await step()) || '')
      } catch (error) {
        say('fail', name, String(error).replace(/\s+/g, ' '))
      }
    }
  })
}

async function main() {
  await new Promise(resolve => ZstdCodec.run(zstd => resolve((simpleZstd = new zstd.Simple()))))
  await { create, offsets, produce, read, member, admin }[verb](...rest)
}

main().then(
  () => process.stdout.write('', () => process.exit(0)), // all that was said is out first
  error => {
    console.error(error)
    process.exit(1)
  }
)
