import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.impl.consumer.AssignedMessageQueue;
import org.apache.rocketmq.client.impl.consumer.DefaultLitePullConsumerImpl;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** A DefaultLitePullConsumer that subscribes, or is told its queues by assign; a thread of ours polls. */
class RemotingLitePull extends RemotingConsumer {
    private static final long POLL_MILLIS = 500;
    private static final int THREADS = 4;

    private final DefaultLitePullConsumer consumer;
    private final boolean isAssigned;
    private final Thread poller = new Thread(this::poll, "poller");
    private volatile boolean isRunning = true;

    RemotingLitePull(JSONObject spec) throws Exception {
        super(spec);
        isAssigned = spec.getString("kind").equals("pull_assign");
        consumer = new DefaultLitePullConsumer(spec.getString("group"), ownRequests);
        consumer.setAllocateMessageQueueStrategy(RemotingStrategies.of(spec));
        consumer.setPullThreadNums(THREADS);
        configure(consumer);
    }

    private DefaultLitePullConsumerImpl impl() throws Exception {
        return field(DefaultLitePullConsumer.class, "defaultLitePullConsumerImpl", consumer);
    }

    @Override
    public void start() throws Exception {
        if (!isAssigned) {
            for (String topic : topics) {
                consumer.subscribe(topic, spec.getString("expression"));
            }
        }
        consumer.start();
        if (isAssigned) {
            consumer.assign(wanted());
        }
        poller.setDaemon(true);
        poller.start();
    }

    /** The queues that `assign` names, all of the topics' where it names none. */
    private List<MessageQueue> wanted() throws Exception {
        Set<Object> named = new HashSet<>(spec.getJSONArray("assign"));
        List<MessageQueue> wanted = new ArrayList<>();
        for (String topic : topics) {
            for (MessageQueue mq : consumer.fetchMessageQueues(topic)) {
                if (named.isEmpty() || named.contains(mq.getBrokerName() + ":" + mq.getQueueId())) {
                    wanted.add(mq);
                }
            }
        }
        return wanted;
    }

    private void poll() {
        while (isRunning) {
            try {
                for (MessageExt message : consumer.poll(POLL_MILLIS)) {
                    listening.consume(
                        QueueCounts.key(message.getTopic(), message.getBrokerName(), message.getQueueId()), 1);
                }
            } catch (RuntimeException refused) {
                if (isRunning) {
                    refused.printStackTrace();
                }
            }
        }
    }

    @Override
    public void stop() throws Exception {
        isRunning = false;
        listening.stop();
        poller.join();
        consumer.shutdown();
    }

    @Override
    protected MQClientInstance instance() {
        try {
            return field(DefaultLitePullConsumerImpl.class, "mQClientFactory", impl());
        } catch (Exception impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    @Override
    protected OffsetStore offsetStore() {
        try {
            return impl().getOffsetStore();
        } catch (Exception impossible) {
            throw new IllegalStateException(impossible);
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
                consumer.pause(held());
                break;
            case "resume":
                consumer.resume(held());
                break;
            default:
                if (!listening.command(verb, arguments)) {
                    throw new IllegalArgumentException("no verb of a pull consumer: " + verb);
                }
        }
    }

    private AssignedMessageQueue assigned() throws Exception {
        return field(DefaultLitePullConsumerImpl.class, "assignedMessageQueue", impl());
    }

    private Collection<MessageQueue> held() throws Exception {
        Map<MessageQueue, Object> states = field(AssignedMessageQueue.class, "assignedMessageQueueState", assigned());
        return new ArrayList<>(states.keySet());
    }

    @Override
    protected Iterable<String> routedTopics() {
        return isAssigned ? super.routedTopics() : subscriptions().keySet();
    }

    private TreeMap<String, String> subscriptions() {
        TreeMap<String, String> subscriptions = new TreeMap<>();
        try {
            for (var one : impl().subscriptions()) {
                subscriptions.put(one.getTopic(), one.getSubString());
            }
        } catch (Exception impossible) {
            throw new IllegalStateException(impossible);
        }
        return subscriptions;
    }

    @Override
    public void describe(JSONObject line, MachineClock clock) throws Exception {
        super.describe(line, clock);
        Map<String, String> names = brokerNames();
        TreeMap<MessageQueue, JSONObject> rows = new TreeMap<>();
        for (MessageQueue mq : held()) {
            ProcessQueue queue = assigned().getProcessQueue(mq);
            if (queue != null) {
                JSONObject row = row(mq, queue, names, clock);
                row.put("is_paused", assigned().isPaused(mq));
                rows.put(mq, row);
            }
        }
        line.put("queues", new JSONArray(new ArrayList<>(rows.values())));
        line.put("subscriptions", new JSONObject(new TreeMap<>(subscriptions())));
    }
}
