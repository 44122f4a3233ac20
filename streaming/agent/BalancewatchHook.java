import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.hook.ConsumeMessageContext;
import org.apache.rocketmq.client.hook.ConsumeMessageHook;
import org.apache.rocketmq.client.hook.SendMessageContext;
import org.apache.rocketmq.client.hook.SendMessageHook;
import org.apache.rocketmq.client.impl.CommunicationMode;
import org.apache.rocketmq.client.impl.FindBrokerResult;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.client.impl.consumer.PullAPIWrapper;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Publishes events of RocketMQ's Java clients to Kafka for balancewatch: send attempts that change a FaultItem
 * (rocketmq.send_latencies), and the pulls of a consumer's queues (rocketmq.pulls).
 *
 * One instance serves all clients of a process. Client threads only put a small object on a bounded queue; a daemon
 * thread writes to Kafka. Events that Kafka does not accept in time are dropped and counted; clients never wait.
 * Requires Java 8, rocketmq-client 4.7.1 to 5.5.0 and kafka-clients 2.0 or newer.
 */
public class BalancewatchHook implements SendMessageHook, AutoCloseable {
    private static final Logger LOG = Logger.getLogger(BalancewatchHook.class.getName());
    private static final int MOST_WAITING = 10_000;
    private static final long SLOW_MILLIS = 500; // MQFaultStrategy: below 550 ms a broker is avoided for 0 ms
    private static final long EVERY_MILLIS = 1_000;
    private static final long PULLS_MILLIS = 5_000;
    private static final long POLL_MILLIS = 200;
    private static final int V5_1_4 = 441; // MQVersion's ordinal
    private static final String STARTED = "balancewatch.started";
    private static final String BROKER_NAME = "balancewatch.broker_name";
    private static final String QUEUE_ID = "balancewatch.queue_id";

    private final String cluster;
    private final KafkaProducer<byte[], byte[]> kafka;
    private final BlockingQueue<Event> waiting = new ArrayBlockingQueue<>(MOST_WAITING);
    private final Map<String, Quiet> brokers = new ConcurrentHashMap<>();
    private final List<Pulls> consumers = new CopyOnWriteArrayList<>();
    private final AtomicLong dropped = new AtomicLong();
    private final Thread writer = new Thread(this::write, "balancewatch-hook");
    private volatile boolean isOpen = true;

    /** `cluster` is RocketMQ's cluster name in the collector's events; `settings` override those of the Kafka producer. */
    public BalancewatchHook(String cluster, String bootstrapServers, Properties settings) {
        this.cluster = cluster;
        Properties all = new Properties();
        all.put("bootstrap.servers", bootstrapServers);
        all.put("acks", "1");
        all.put("linger.ms", "100");
        all.put("max.block.ms", "5000");
        all.put("delivery.timeout.ms", "30000");
        all.put("request.timeout.ms", "10000");
        all.put("buffer.memory", String.valueOf(4 << 20));
        all.putAll(settings);
        kafka = new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
        writer.setDaemon(true);
        writer.start();
    }

    public BalancewatchHook(String cluster, String bootstrapServers) {
        this(cluster, bootstrapServers, new Properties());
    }

    /** Call before the producer starts. A producer without sendLatencyFaultEnable keeps no FaultItem and publishes nothing. */
    public void addTo(DefaultMQProducer producer) {
        producer.getDefaultMQProducerImpl().registerSendMessageHook(this);
    }

    /** Call before the consumer starts. */
    public void addTo(DefaultMQPushConsumer consumer) {
        Pulls pulls = new Pulls(consumer);
        consumer.getDefaultMQPushConsumerImpl().registerConsumeMessageHook(pulls);
        consumers.add(pulls);
    }

    @Override
    public String hookName() {
        return "balancewatch";
    }

    /** Events that were not written. */
    public long dropped() {
        return dropped.get();
    }

    @Override
    public void sendMessageBefore(SendMessageContext context) {
        if (context.getProps() == null) {
            context.setProps(new HashMap<>());
        }
        context.getProps().put(STARTED, String.valueOf(System.nanoTime()));
        context.getProps().put(BROKER_NAME, context.getMq().getBrokerName()); // 4.x may rename a queue meanwhile: #7779
        context.getProps().put(QUEUE_ID, String.valueOf(context.getMq().getQueueId()));
    }

    /**
     * Handles the end of an attempt. An asynchronous send calls this when it is handed over, without a result, and at
     * its end. RocketMQ does not report retries in between: if another broker accepted the send, the first broker's
     * attempt failed, within the total time.
     */
    @Override
    public void sendMessageAfter(SendMessageContext context) {
        SendResult result = context.getSendResult();
        Exception failure = context.getException();
        Map<String, String> before = context.getProps() == null ? Collections.emptyMap() : context.getProps();
        DefaultMQProducer producer = context.getProducer().getDefaultMQProducer();
        boolean isEnd = before.containsKey(STARTED) && (result != null || failure != null);
        if (!isEnd || !context.getProducer().isSendLatencyFaultEnable()) {
            return;
        }
        String brokerName = before.get(BROKER_NAME);
        long latency = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - Long.parseLong(before.get(STARTED)));
        boolean isTaken = result != null && failure == null
            && result.getMessageQueue().getBrokerName().equals(brokerName);
        boolean isIsolated = !isTaken && !(failure instanceof InterruptedException);
        Quiet quiet = brokers.computeIfAbsent(producer.buildMQClientId() + "|" + brokerName, key -> new Quiet());
        if (!quiet.isWorthTelling(isIsolated || latency >= SLOW_MILLIS)) {
            return;
        }
        Event event = new Event("rocketmq.send_latencies", cluster + "|" + brokerName)
            .text("cluster", cluster)
            .text("client_id", producer.buildMQClientId())
            .text("client_version", MQVersion.getVersionDesc(MQVersion.CURRENT_VERSION))
            .text("topic", context.getMq().getTopic())
            .text("broker_name", brokerName)
            .number("queue_id", Integer.parseInt(before.get(QUEUE_ID)))
            .number("latency_ms", latency)
            .flag("isolation", isIsolated)
            .number("event_time_ms", System.currentTimeMillis());
        if (isTaken) {
            event.text("send_status", result.getSendStatus().name());
        }
        if (MQVersion.CURRENT_VERSION >= V5_1_4) {
            event.flag("reachable", isTaken || isReachable(producer, context.getCommunicationMode(), failure));
        }
        offer(event);
    }

    /** As DefaultMQProducerImpl and MQClientAPIImpl of 5.1.4 on call updateFaultItem after a failed attempt. */
    private static boolean isReachable(DefaultMQProducer producer, CommunicationMode mode, Exception failure) {
        if (failure == null || failure instanceof InterruptedException) {
            return true;
        }
        if (mode == CommunicationMode.ASYNC) {
            return failure instanceof MQClientException || failure instanceof MQBrokerException;
        }
        return !(failure instanceof MQBrokerException) && !isDetecting(producer);
    }

    private static boolean isDetecting(DefaultMQProducer producer) {
        try { // a setting that 4.x lacks
            return (boolean) producer.getClass().getMethod("isStartDetectorEnable").invoke(producer);
        } catch (ReflectiveOperationException none) {
            return false;
        }
    }

    private void offer(Event event) {
        if (!isOpen || !waiting.offer(event)) {
            drop();
        }
    }

    private void drop() {
        long count = dropped.incrementAndGet();
        if (Long.bitCount(count) == 1) { // 1, 2, 4, 8, ...
            LOG.warning("balancewatch: " + count + " events dropped; is Kafka reachable?");
        }
    }

    private void write() {
        long next = System.nanoTime();
        while (isOpen || !waiting.isEmpty()) {
            try {
                Event event = waiting.poll(POLL_MILLIS, TimeUnit.MILLISECONDS);
                if (event != null) {
                    send(event);
                }
                if (System.nanoTime() - next >= 0) {
                    next = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PULLS_MILLIS);
                    writePulls();
                }
            } catch (InterruptedException ending) {
                return;
            }
        }
    }

    private void writePulls() {
        for (Pulls pulls : consumers) {
            try {
                pulls.take(cluster).forEach(this::send);
            } catch (ReflectiveOperationException | RuntimeException unread) { // a consumer that has not started
                LOG.log(Level.FINE, "balancewatch: pulls not read", unread);
            }
        }
    }

    private void send(Event event) {
        try {
            kafka.send(new ProducerRecord<>(event.topic, utf8(event.key), utf8(event.json())), (taken, failure) -> {
                if (failure != null) {
                    drop();
                }
            });
        } catch (RuntimeException refused) {
            drop();
        }
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Writes the waiting events, for at most two seconds. Clients may continue; their later events are dropped. */
    @Override
    public void close() {
        isOpen = false;
        try {
            writer.join(2_000);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
        kafka.close(Duration.ofSeconds(2));
    }

    /**
     * A producer's newest attempts at a broker. A quick attempt changes a FaultItem only after a slow one; such attempts
     * are published, and one other per second.
     */
    private static class Quiet {
        private boolean wasSlow = true;
        private long publishedNanos;

        synchronized boolean isWorthTelling(boolean isSlow) {
            long now = System.nanoTime();
            boolean is = isSlow || wasSlow || now - publishedNanos >= TimeUnit.MILLISECONDS.toNanos(EVERY_MILLIS);
            wasSlow = isSlow;
            publishedNanos = is ? now : publishedNanos;
            return is;
        }
    }

    /**
     * A consumer's pulls, read from its ProcessQueues; the hook knows the next offset. Committed offsets are left out:
     * the consumer's are ahead of the broker's by up to persistConsumerOffsetInterval, and would seem to fall.
     */
    private static class Pulls implements ConsumeMessageHook {
        private final DefaultMQPushConsumer consumer;
        private final Map<MessageQueue, Long> next = new ConcurrentHashMap<>();
        private final Map<MessageQueue, Long> published = new HashMap<>();

        Pulls(DefaultMQPushConsumer consumer) {
            this.consumer = consumer;
        }

        @Override
        public String hookName() {
            return "balancewatch";
        }

        @Override
        public void consumeMessageBefore(ConsumeMessageContext context) {
            List<MessageExt> messages = context.getMsgList();
            next.merge(context.getMq(), messages.get(messages.size() - 1).getQueueOffset() + 1, Math::max);
        }

        @Override
        public void consumeMessageAfter(ConsumeMessageContext context) {
            // consumeMessageBefore has recorded the offset
        }

        /** Returns an event for each queue pulled since the last call, without a request to the broker. */
        List<Event> take(String cluster) throws ReflectiveOperationException {
            DefaultMQPushConsumerImpl impl = consumer.getDefaultMQPushConsumerImpl();
            List<Event> events = new ArrayList<>();
            Map<MessageQueue, ProcessQueue> held = impl.getRebalanceImpl().getProcessQueueTable();
            published.keySet().retainAll(held.keySet());
            next.keySet().retainAll(held.keySet());
            for (Map.Entry<MessageQueue, ProcessQueue> one : held.entrySet()) {
                MessageQueue mq = one.getKey();
                ProcessQueue queue = one.getValue();
                long pulled = queue.getLastPullTimestamp(); // a new ProcessQueue has its creation time
                Long before = published.put(mq, pulled);
                boolean mayPull = queue.isLocked() || !impl.isConsumeOrderly();
                boolean isPulled = before != null && before != pulled && !queue.isDropped() && !impl.isPause();
                if (isPulled && mayPull && !mq.getTopic().startsWith("%RETRY%")) {
                    events.add(new Event("rocketmq.pulls", cluster + "|" + consumer.getConsumerGroup())
                        .text("cluster", cluster)
                        .text("broker_name", mq.getBrokerName())
                        .number("broker_id", servedBy(impl, mq))
                        .text("topic", mq.getTopic())
                        .number("queue_id", mq.getQueueId())
                        .text("consumer_group", consumer.getConsumerGroup())
                        .text("client_id", consumer.buildMQClientId())
                        .number("pull_offset", next.getOrDefault(mq, 0L))
                        .number("event_time_ms", pulled));
                }
            }
            return events;
        }

        /** Returns the broker id that the client pulls from: the suggested one, if the client knows its address. */
        private static long servedBy(DefaultMQPushConsumerImpl impl, MessageQueue mq)
            throws ReflectiveOperationException {
            Field wrapper = DefaultMQPushConsumerImpl.class.getDeclaredField("pullAPIWrapper");
            wrapper.setAccessible(true);
            long suggested = ((PullAPIWrapper) wrapper.get(impl)).recalculatePullFromWhichNode(mq);
            FindBrokerResult found =
                impl.getmQClientFactory().findBrokerAddressInSubscribe(mq.getBrokerName(), suggested, false);
            if (found == null || found.isSlave() == suggested > 0) {
                return suggested;
            }
            return found.isSlave() ? 1 : 0;
        }
    }

    /** One JSON object, its topic and its key. */
    private static class Event {
        private final String topic;
        private final String key;
        private final StringBuilder fields = new StringBuilder("{");

        Event(String topic, String key) {
            this.topic = topic;
            this.key = key;
        }

        Event text(String name, String value) {
            StringBuilder quoted = new StringBuilder("\"");
            for (int i = 0; i < value.length(); i++) {
                char character = value.charAt(i);
                if (character == '"' || character == '\\') {
                    quoted.append('\\').append(character);
                } else if (character < ' ') {
                    quoted.append(String.format("\\u%04x", (int) character));
                } else {
                    quoted.append(character);
                }
            }
            return put(name, quoted.append('"').toString());
        }

        Event number(String name, long value) {
            return put(name, String.valueOf(value));
        }

        Event flag(String name, boolean value) {
            return put(name, String.valueOf(value));
        }

        private Event put(String name, String value) {
            fields.append(fields.length() > 1 ? "," : "").append('"').append(name).append("\":").append(value);
            return this;
        }

        String json() {
            return fields + "}";
        }
    }
}
