import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import io.netty.channel.Channel;
import io.netty.channel.embedded.EmbeddedChannel;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.broker.client.ClientChannelInfo;
import org.apache.rocketmq.broker.client.ConsumerGroupEvent;
import org.apache.rocketmq.broker.client.ConsumerGroupInfo;
import org.apache.rocketmq.broker.client.ConsumerIdsChangeListener;
import org.apache.rocketmq.broker.client.ConsumerManager;
import org.apache.rocketmq.broker.client.rebalance.RebalanceLockManager;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.LanguageCode;
import org.apache.rocketmq.remoting.protocol.heartbeat.ConsumeType;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData;

/**
 * A broker's ConsumerManager and RebalanceLockManager, played step by step.
 *
 * A question is a JSON object: kind ("consumers" or "locks") and steps, each an array that begins with its verb. Time
 * passes by making everything older. The answer is a JSON array with one string a step: what the call returned, whom
 * the manager told of a change, and the table as it is then.
 */
public class Membership {
    static String answer(JSONObject question) throws Exception {
        List<String> answers = new ArrayList<>();
        Consumers consumers = new Consumers();
        Locks locks = new Locks();
        for (Object step : question.getJSONArray("steps")) {
            boolean isConsumers = question.getString("kind").equals("consumers");
            answers.add(isConsumers ? consumers.play((JSONArray) step) : locks.play((JSONArray) step));
        }
        return JSON.toJSONString(answers);
    }

    private static class Consumers implements ConsumerIdsChangeListener {
        private final List<Channel> channels = new ArrayList<>();
        private final ConsumerManager manager = new ConsumerManager(this, 120_000);
        private final TreeSet<String> told = new TreeSet<>();

        private Consumers() {
            for (int i = 0; i < 6; i++) {
                channels.add(new EmbeddedChannel());
            }
        }

        @Override
        public void handle(ConsumerGroupEvent event, String group, Object... args) {
            if (event == ConsumerGroupEvent.CHANGE) {
                for (Object channel : (Collection<?>) args[0]) {
                    told.add(group + channels.indexOf(channel));
                }
            }
        }

        @Override
        public void shutdown() {
        }

        private String play(JSONArray step) {
            told.clear();
            String answer = call(step);
            return answer + " " + told + " " + table();
        }

        private String call(JSONArray step) {
            switch (step.getString(0)) {
                case "register":
                    return String.valueOf(register(step));
                case "unregister":
                    manager.unregisterConsumer(step.getString(1),
                        new ClientChannelInfo(channels.get(step.getIntValue(2)), "", LanguageCode.JAVA, 0), true);
                    return "-";
                case "close":
                    return String.valueOf(manager.doChannelCloseEvent("", channels.get(step.getIntValue(1))));
                case "pass":
                    for (ConsumerGroupInfo info : manager.getConsumerTable().values()) {
                        for (ClientChannelInfo channel : info.getChannelInfoTable().values()) {
                            channel.setLastUpdateTimestamp(channel.getLastUpdateTimestamp() - step.getLongValue(1));
                        }
                    }
                    return "-";
                case "scan":
                    manager.scanNotActiveChannel();
                    return "-";
                case "list":
                    ConsumerGroupInfo info = manager.getConsumerGroupInfo(step.getString(1));
                    return info == null ? "null" : sorted(info.getAllClientId());
                default:
                    throw new IllegalArgumentException(step.toJSONString());
            }
        }

        private boolean register(JSONArray step) {
            ClientChannelInfo channel = new ClientChannelInfo(
                channels.get(step.getIntValue(2)), step.getString(3), LanguageCode.JAVA, 0);
            ConsumeType type = ConsumeType.valueOf(step.getString(5));
            MessageModel model = MessageModel.valueOf(step.getString(6));
            ConsumeFromWhere where = ConsumeFromWhere.valueOf(step.getString(7));
            if (step.getBooleanValue(8)) {
                return manager.registerConsumerWithoutSub(step.getString(1), channel, type, model, where, true);
            }
            Set<SubscriptionData> subscriptions = new HashSet<>();
            for (Object one : step.getJSONArray(4)) {
                JSONArray given = (JSONArray) one;
                SubscriptionData subscription = new SubscriptionData(given.getString(0), given.getString(1));
                subscription.setSubVersion(given.getLongValue(2));
                subscriptions.add(subscription);
            }
            return manager.registerConsumer(step.getString(1), channel, type, model, where, subscriptions, true);
        }

        private String table() {
            TreeMap<String, String> groups = new TreeMap<>();
            for (Map.Entry<String, ConsumerGroupInfo> group : manager.getConsumerTable().entrySet()) {
                ConsumerGroupInfo info = group.getValue();
                TreeMap<Integer, String> members = new TreeMap<>();
                for (Map.Entry<Channel, ClientChannelInfo> member : info.getChannelInfoTable().entrySet()) {
                    members.put(channels.indexOf(member.getKey()), member.getValue().getClientId());
                }
                TreeMap<String, String> subscriptions = new TreeMap<>();
                for (SubscriptionData subscription : info.getSubscriptionTable().values()) {
                    subscriptions.put(subscription.getTopic(),
                        subscription.getSubString() + "@" + subscription.getSubVersion());
                }
                groups.put(group.getKey(), members + " " + subscriptions + " " + info.getConsumeType().name() + " "
                    + info.getMessageModel().name() + " " + info.getConsumeFromWhere().name());
            }
            return groups.toString();
        }
    }

    private static class Locks {
        private final RebalanceLockManager manager = new RebalanceLockManager();

        private String play(JSONArray step) throws Exception {
            String group = step.size() > 1 ? step.getString(1) : "";
            switch (step.getString(0)) {
                case "lock":
                    return String.valueOf(manager.tryLock(group, queue(step.getIntValue(2)), step.getString(3)));
                case "lock_batch":
                    return queues(manager.tryLockBatch(group, queues(step.getJSONArray(2)), step.getString(3)));
                case "unlock_batch":
                    manager.unlockBatch(group, queues(step.getJSONArray(2)), step.getString(3));
                    return "-";
                case "pass":
                    age(step.getLongValue(1));
                    return "-";
                default:
                    throw new IllegalArgumentException(step.toJSONString());
            }
        }

        private void age(long millis) throws Exception {
            Field table = RebalanceLockManager.class.getDeclaredField("mqLockTable");
            table.setAccessible(true);
            for (Object entries : ((Map<?, ?>) table.get(manager)).values()) {
                for (Object entry : ((Map<?, ?>) entries).values()) {
                    Method get = entry.getClass().getMethod("getLastUpdateTimestamp");
                    Method set = entry.getClass().getMethod("setLastUpdateTimestamp", long.class);
                    get.setAccessible(true);
                    set.setAccessible(true);
                    set.invoke(entry, (Long) get.invoke(entry) - millis);
                }
            }
        }

        private static MessageQueue queue(int queueId) {
            return new MessageQueue("orders", "broker-a", queueId);
        }

        private static Set<MessageQueue> queues(JSONArray ids) {
            Set<MessageQueue> queues = new HashSet<>();
            for (Object id : ids) {
                queues.add(queue((Integer) id));
            }
            return queues;
        }

        private static String queues(Set<MessageQueue> queues) {
            TreeSet<Integer> ids = new TreeSet<>();
            for (MessageQueue queue : queues) {
                ids.add(queue.getQueueId());
            }
            return ids.toString();
        }
    }

    private static String sorted(List<String> texts) {
        texts.sort(null);
        return texts.toString();
    }
}
