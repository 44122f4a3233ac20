import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.store.LocalFileOffsetStore;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.consumer.store.RemoteBrokerOffsetStore;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.FindBrokerResult;
import org.apache.rocketmq.client.impl.MQAdminImpl;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.client.impl.consumer.PullAPIWrapper;
import org.apache.rocketmq.client.impl.consumer.PullRequest;
import org.apache.rocketmq.client.impl.consumer.RebalanceImpl;
import org.apache.rocketmq.client.impl.consumer.RebalancePushImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A push consumer's RebalancePushImpl, offset stores, ProcessQueue and PullAPIWrapper, without a network.
 *
 * A question is a JSON object with a kind and steps; the answer is a JSON array with one string a step. Queues are
 * written topic@broker@id. What would ask a broker asks the question instead. Time passes by making everything older.
 * LocalFileOffsetStore writes below the system property rocketmq.client.localOffsetStoreDir.
 */
public class Rebalance {
    private static final Factory FACTORY = new Factory();

    static String answer(JSONObject question) throws Exception {
        Session session = session(question);
        List<String> answers = new ArrayList<>();
        for (Object step : question.getJSONArray("steps")) {
            answers.add(session.play(step));
        }
        return JSON.toJSONString(answers);
    }

    private interface Session {
        String play(Object step) throws Exception;
    }

    private static Session session(JSONObject question) throws Exception {
        switch (question.getString("kind")) {
            case "rounds":
                return new Rounds(question);
            case "remote":
                return new Stored(new TellingStore());
            case "local":
                return new Stored(newLocalStore());
            case "node":
                return new Nodes();
            default:
                throw new IllegalArgumentException(question.toJSONString());
        }
    }

    private static LocalFileOffsetStore newLocalStore() {
        FACTORY.clientId = "local";
        File[] leftBehind = new File(LocalFileOffsetStore.LOCAL_OFFSET_STORE_DIR, "local/g").listFiles();
        for (File file : leftBehind == null ? new File[0] : leftBehind) {
            file.delete();
        }
        return new LocalFileOffsetStore(FACTORY, "g");
    }

    /** A consumer's rounds of doRebalance: each step is what it is told this time. */
    private static class Rounds implements Session {
        private final DefaultMQPushConsumerImpl consumer;
        private final Push rebalance;
        private final boolean isOrder;

        private Rounds(JSONObject question) {
            isOrder = question.getBooleanValue("is_order");
            DefaultMQPushConsumer config = new DefaultMQPushConsumer("g");
            config.setConsumeFromWhere(ConsumeFromWhere.valueOf(question.getString("consume_from_where")));
            var model = config.getMessageModel();
            for (var one : model.getDeclaringClass().getEnumConstants()) {
                model = one.name().equals(question.getString("message_model")) ? one : model;
            }
            config.setMessageModel(model);
            consumer = new DefaultMQPushConsumerImpl(config, null);
            consumer.setConsumeOrderly(isOrder);
            consumer.setmQClientFactory(FACTORY);
            consumer.setOffsetStore((OffsetStore) Proxy.newProxyInstance(Rebalance.class.getClassLoader(),
                new Class<?>[] {OffsetStore.class}, (self, method, args) -> store(method, args)));
            FACTORY.clientId = question.getString("client_id");
            rebalance = new Push(consumer);
            rebalance.setConsumerGroup("g");
            rebalance.setMessageModel(model);
            rebalance.setAllocateMessageQueueStrategy(strategy(question.getString("strategy")));
            rebalance.setmQClientFactory(FACTORY);
            FACTORY.consumer = rebalance;
        }

        private Object store(Method method, Object[] args) {
            switch (method.getName()) {
                case "readOffset":
                    return FACTORY.step.getJSONObject("stored").getLongValue(name((MessageQueue) args[0]));
                case "persist":
                    rebalance.persisted.add(name((MessageQueue) args[0]));
                    return null;
                default:
                    return null;
            }
        }

        @Override
        public String play(Object given) throws Exception {
            JSONObject step = (JSONObject) given;
            FACTORY.step = step;
            rebalance.begin(step);
            Method doRebalance = RebalanceImpl.class.getMethod("doRebalance", boolean.class);
            Object balanced = doRebalance.invoke(rebalance, isOrder);
            return (balanced == null ? "-" : balanced) + " " + rebalance.told();
        }
    }

    private static class Push extends RebalancePushImpl {
        private final TreeSet<String> persisted = new TreeSet<>();
        private final TreeSet<String> pulled = new TreeSet<>();
        private final TreeMap<String, Long> unlocked = new TreeMap<>();
        private JSONObject step;
        private String leaving;

        private Push(DefaultMQPushConsumerImpl consumer) {
            super(consumer);
        }

        private void begin(JSONObject given) throws Exception {
            step = given;
            persisted.clear();
            pulled.clear();
            unlocked.clear();
            long millis = step.getLongValue("passed_ms");
            for (Map.Entry<MessageQueue, ProcessQueue> held : processQueueTable.entrySet()) {
                ProcessQueue queue = held.getValue();
                boolean isPulled = step.getJSONArray("pulled").contains(name(held.getKey()));
                long now = System.currentTimeMillis();
                queue.setLastPullTimestamp(isPulled ? now : queue.getLastPullTimestamp() - millis);
                boolean isLocked = step.getJSONArray("renewed").contains(name(held.getKey()));
                queue.setLastLockTimestamp(isLocked ? now : queue.getLastLockTimestamp() - millis);
                queue.clear();
                if (step.getJSONArray("unconsumed").contains(name(held.getKey()))) {
                    queue.putMessage(Collections.singletonList(message(0)));
                }
            }
            topicSubscribeInfoTable.clear();
            for (Map.Entry<String, Object> route : step.getJSONObject("routes").entrySet()) {
                if (route.getValue() != null) {
                    topicSubscribeInfoTable.put(route.getKey(), queues((JSONArray) route.getValue()));
                }
            }
            Map<String, Object> subscribed = cast(getSubscriptionInner());
            subscribed.clear();
            for (Object topic : step.getJSONArray("subscribed")) {
                subscribed.put((String) topic, "subscribed");
            }
        }

        private String told() throws Exception {
            TreeMap<String, String> table = new TreeMap<>();
            for (Map.Entry<MessageQueue, ProcessQueue> held : processQueueTable.entrySet()) {
                ProcessQueue queue = held.getValue();
                table.put(name(held.getKey()), (queue.isDropped() ? "dropped " : "") + (queue.isLocked() ? "locked" : ""));
            }
            Method asked = RebalanceImpl.class.getDeclaredMethod("buildProcessQueueTableByBrokerName");
            asked.setAccessible(true);
            TreeSet<String> toLock = new TreeSet<>();
            for (Object queues : ((Map<?, ?>) asked.invoke(this)).values()) {
                for (Object queue : (Set<?>) queues) {
                    toLock.add(name((MessageQueue) queue));
                }
            }
            return table + " pull " + pulled + " persist " + persisted + " unlock " + unlocked + " lock " + toLock;
        }

        @Override
        public void messageQueueChanged(String topic, Set<MessageQueue> mqAll, Set<MessageQueue> mqDivided) {
            // not asked about
        }

        @Override
        public boolean lock(MessageQueue queue) {
            return step.getJSONArray("lockable").contains(name(queue));
        }

        @Override
        public void unlock(MessageQueue queue, boolean oneway) {
            unlocked.put(name(queue), 0L);
        }

        /** An interrupted thread is refused the listener's lock at once, as it is after the wait for a busy listener. */
        @Override
        public boolean removeUnnecessaryMessageQueue(MessageQueue queue, ProcessQueue processQueue) {
            leaving = name(queue);
            if (step.getJSONArray("busy").contains(leaving)) {
                Thread.currentThread().interrupt();
            }
            boolean isRemoved = super.removeUnnecessaryMessageQueue(queue, processQueue);
            Thread.interrupted();
            return isRemoved;
        }

        public void dispatchPullRequest(List<PullRequest> requests) {
            for (PullRequest request : requests) {
                pulled.add(name(request.getMessageQueue()) + ":" + request.getNextOffset());
            }
        }

        public void dispatchPullRequest(List<PullRequest> requests, long delay) {
            dispatchPullRequest(requests);
        }
    }

    /** Everything a client would ask others for. */
    private static class Factory extends MQClientInstance {
        private JSONObject step;
        private Push consumer;
        private String clientId;

        private Factory() {
            super(new ClientConfig(), 0, "oracle");
        }

        @Override
        public String getClientId() {
            return clientId;
        }

        @Override
        public List<String> findConsumerIdList(String topic, String group) {
            JSONArray clientIds = step.getJSONObject("cid_all").getJSONArray(topic);
            return clientIds == null ? null : strings(clientIds);
        }

        public void rebalanceLater(long delayMillis) {
        }

        @Override
        public ScheduledExecutorService getScheduledExecutorService() {
            return new ScheduledThreadPoolExecutor(0) {
                @Override
                public ScheduledFuture<?> schedule(Runnable command, long delay, TimeUnit unit) {
                    consumer.unlocked.put(consumer.leaving, unit.toMillis(delay));
                    return null;
                }
            };
        }

        @Override
        public MQAdminImpl getMQAdminImpl() {
            return new MQAdminImpl(this) {
                @Override
                public long maxOffset(MessageQueue queue) throws MQClientException {
                    return offset("max", queue);
                }

                @Override
                public long searchOffset(MessageQueue queue, long timestamp) throws MQClientException {
                    return offset("timestamp", queue);
                }
            };
        }

        private long offset(String which, MessageQueue queue) throws MQClientException {
            long offset = step.getJSONObject(which).getLongValue(name(queue));
            if (offset < 0) {
                throw new MQClientException("no answer", null);
            }
            return offset;
        }
    }

    /** RemoteBrokerOffsetStore and LocalFileOffsetStore; a step is an array that begins with its verb. */
    private static class Stored implements Session {
        private OffsetStore store;

        private Stored(OffsetStore store) {
            this.store = store;
        }

        @Override
        public String play(Object given) throws Exception {
            JSONArray step = (JSONArray) given;
            String answer = "-";
            switch (step.getString(0)) {
                case "update":
                    store.updateOffset(queue(step.getString(1)), step.getLongValue(2), step.getBooleanValue(3));
                    break;
                case "restart":
                    store = new LocalFileOffsetStore(FACTORY, "g");
                    store.load();
                    break;
                case "persist_all":
                    store.persistAll(queues(step.getJSONArray(1)));
                    break;
                case "persist":
                    store.persist(queue(step.getString(1)));
                    break;
                case "remove":
                    store.removeOffset(queue(step.getString(1)));
                    break;
                case "read_from_memory":
                    answer = "" + store.readOffset(queue(step.getString(1)), ReadOffsetType.READ_FROM_MEMORY);
                    break;
                case "read_from_store":
                    answer = "" + store.readOffset(queue(step.getString(1)), ReadOffsetType.READ_FROM_STORE);
                    break;
                default:
                    throw new IllegalArgumentException(step.toJSONString());
            }
            if (store instanceof TellingStore) {
                answer += " " + ((TellingStore) store).takeTold();
            }
            return answer + " " + offsets(store);
        }

        private static String offsets(OffsetStore store) {
            TreeMap<String, Long> offsets = new TreeMap<>();
            for (Map.Entry<MessageQueue, Long> entry : store.cloneOffsetTable("").entrySet()) {
                offsets.put(name(entry.getKey()), entry.getValue());
            }
            return offsets.toString();
        }
    }

    private static class TellingStore extends RemoteBrokerOffsetStore {
        private final TreeMap<String, Long> told = new TreeMap<>();

        private TellingStore() {
            super(FACTORY, "g");
        }

        @Override
        public void updateConsumeOffsetToBroker(MessageQueue queue, long offset, boolean isOneway) {
            told.put(name(queue), offset);
        }

        private String takeTold() {
            String taken = told.toString();
            told.clear();
            return taken;
        }
    }

    /** Which broker is asked: a step is [the id suggested, or null; the ids that are there]. */
    private static class Nodes implements Session {
        private final MessageQueue queue = new MessageQueue("orders", "broker-a", 0);
        private final PullAPIWrapper wrapper = new PullAPIWrapper(FACTORY, "g", false);

        @Override
        public String play(Object given) throws Exception {
            JSONArray step = (JSONArray) given;
            if (step.getLong(0) != null) {
                wrapper.updatePullFromWhichNode(queue, step.getLongValue(0));
            }
            HashMap<Long, String> addresses = new HashMap<>();
            for (Object id : step.getJSONArray(1)) {
                addresses.put(((Number) id).longValue(), "address " + id);
            }
            Field table = MQClientInstance.class.getDeclaredField("brokerAddrTable");
            table.setAccessible(true);
            Map<String, Object> brokers = cast(table.get(FACTORY));
            brokers.put("broker-a", addresses);
            FindBrokerResult found = FACTORY.findBrokerAddressInSubscribe(
                "broker-a", wrapper.recalculatePullFromWhichNode(queue), false);
            return found == null ? "null" : found.getBrokerAddr();
        }
    }

    private static AllocateMessageQueueStrategy strategy(String name) {
        return name.equals("AVG") ? new AllocateMessageQueueAveragely() : new AllocateMessageQueueAveragelyByCircle();
    }

    private static MessageExt message(long queueOffset) {
        MessageExt message = new MessageExt();
        message.setQueueOffset(queueOffset);
        message.setBody(new byte[1]);
        return message;
    }

    private static MessageQueue queue(String name) {
        String[] parts = name.split("@");
        return new MessageQueue(parts[0], parts[1], Integer.parseInt(parts[2]));
    }

    private static String name(MessageQueue queue) {
        return queue.getTopic() + "@" + queue.getBrokerName() + "@" + queue.getQueueId();
    }

    private static Set<MessageQueue> queues(JSONArray names) {
        Set<MessageQueue> queues = new HashSet<>();
        for (Object name : names) {
            queues.add(queue((String) name));
        }
        return queues;
    }

    private static List<String> strings(JSONArray given) {
        List<String> texts = new ArrayList<>();
        for (Object text : given) {
            texts.add((String) text);
        }
        return texts;
    }

    @SuppressWarnings("unchecked")
    private static <T> T cast(Object given) {
        return (T) given;
    }
}
