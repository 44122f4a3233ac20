import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.client.impl.consumer.RebalanceImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** A DefaultMQPushConsumer: concurrent, orderly, broadcasting, or of a group whose brokers say POP. */
class RemotingPush extends RemotingConsumer {
    private static final int THREADS = 4;

    private final DefaultMQPushConsumer consumer;
    private final boolean isPop;

    RemotingPush(JSONObject spec) throws Exception {
        super(spec);
        String kind = spec.getString("kind");
        isPop = kind.equals("pop");
        consumer = new DefaultMQPushConsumer(
            spec.getString("group"), ownRequests, RemotingStrategies.of(spec));
        consumer.setConsumeThreadMin(THREADS);
        consumer.setConsumeThreadMax(THREADS);
        if (kind.equals("broadcasting")) {
            broadcast();
        }
        if (isPop) {
            DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
        }
        configure(consumer);
        if (kind.equals("push_orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                consume(messages, context.getMessageQueue());
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                consume(messages, context.getMessageQueue());
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        for (String topic : topics) {
            consumer.subscribe(topic, spec.getString("expression"));
        }
    }

    /** MessageModel stands in another package in 5.x. */
    private void broadcast() {
        var model = consumer.getMessageModel();
        for (var one : model.getDeclaringClass().getEnumConstants()) {
            model = one.name().equals("BROADCASTING") ? one : model;
        }
        consumer.setMessageModel(model);
    }

    private DefaultMQPushConsumerImpl impl() {
        return consumer.getDefaultMQPushConsumerImpl();
    }

    @Override
    public void start() throws Exception {
        consumer.start();
    }

    @Override
    public void stop() {
        consumer.shutdown();
        listening.stop();
    }

    @Override
    protected MQClientInstance instance() {
        return impl().getmQClientFactory();
    }

    @Override
    protected OffsetStore offsetStore() {
        return impl().getOffsetStore();
    }

    private void consume(List<MessageExt> messages, MessageQueue mq) {
        for (MessageExt message : messages) { // a popped message comes of one queue, its MessageQueue may be of all
            int queueId = isPop ? message.getQueueId() : mq.getQueueId();
            listening.consume(QueueCounts.key(mq.getTopic(), mq.getBrokerName(), queueId), 1);
        }
    }

    @Override
    public void command(String verb, String arguments) throws Exception {
        String[] parts = arguments.split(" ", 2);
        switch (verb) {
            case "subscribe":
                consumer.subscribe(parts[0], parts.length > 1 ? parts[1] : "*");
                break;
            case "unsubscribe":
                consumer.unsubscribe(parts[0]);
                break;
            case "suspend":
                consumer.suspend();
                break;
            case "resume":
                consumer.resume();
                break;
            default:
                if (!listening.command(verb, arguments)) {
                    throw new IllegalArgumentException("no verb of a push consumer: " + verb);
                }
        }
    }

    @Override
    protected Iterable<String> routedTopics() {
        return subscriptions().keySet();
    }

    private TreeMap<String, String> subscriptions() {
        TreeMap<String, String> subscriptions = new TreeMap<>();
        for (var one : impl().subscriptions()) {
            subscriptions.put(one.getTopic(), one.getSubString());
        }
        return subscriptions;
    }

    @Override
    public void describe(JSONObject line, MachineClock clock) throws Exception {
        super.describe(line, clock);
        Map<String, String> names = brokerNames();
        TreeMap<MessageQueue, JSONObject> rows = new TreeMap<>();
        RebalanceImpl rebalance = impl().getRebalanceImpl();
        for (Map.Entry<MessageQueue, ProcessQueue> held : rebalance.getProcessQueueTable().entrySet()) {
            rows.put(held.getKey(), row(held.getKey(), held.getValue(), names, clock));
        }
        if (isPop) {
            Map<MessageQueue, Object> popped = field(RebalanceImpl.class, "popProcessQueueTable", rebalance);
            for (Map.Entry<MessageQueue, Object> held : popped.entrySet()) {
                rows.put(held.getKey(), poppedRow(held.getKey(), held.getValue(), names));
            }
        }
        line.put("queues", new JSONArray(new java.util.ArrayList<>(rows.values())));
        line.put("subscriptions", new JSONObject(new TreeMap<>(subscriptions())));
        line.put("is_paused", impl().isPause());
    }

    /** A PopProcessQueue: `cached` is what waits for its ack; a queue_id of -1 is every queue of the broker. */
    private JSONObject poppedRow(MessageQueue mq, Object queue, Map<String, String> names)
        throws Exception {
        JSONObject row = row(mq, names);
        int unacked = (int) call(queue, "getWaiAckMsgCount");
        long consumed = 0;
        long last = 0;
        for (String of : listening.consumed.queues()) {
            if (of.equals(key(mq)) || mq.getQueueId() < 0
                && of.startsWith(mq.getTopic() + "@" + mq.getBrokerName() + "@")) {
                consumed += listening.consumed.count(of);
                last = Math.max(last, listening.consumed.last(of));
            }
        }
        row.put("last_consume", last);
        row.put("dropped", call(queue, "isDropped"));
        row.put("cached", unacked);
        row.put("pulled", consumed + unacked);
        row.put("consumed", consumed);
        row.put("popped", true);
        return row;
    }

    private static Object call(Object target, String getter) throws Exception {
        Method method = target.getClass().getMethod(getter);
        method.setAccessible(true);
        return method.invoke(target);
    }
}
