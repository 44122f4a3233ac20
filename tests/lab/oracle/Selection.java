import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.common.ThreadLocalIndex;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.impl.producer.TopicPublishInfo;
import org.apache.rocketmq.client.latency.MQFaultStrategy;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * topicRouteData2TopicPublishInfo and selectOneMessageQueue as the release on the class path answers for them.
 *
 * A question is a route (queue_datas [[broker_name, read, write, perm]], masters, order_topic_conf) and steps, each a
 * selection: index and which_item_worst set what the thread keeps, items set all FaultItems ([name, current_latency,
 * start_timestamp - now, reachable]), last is the broker that failed, reset asks for a new random index. Or "hash": an
 * ordering key (string or int) and a number of queues.
 */
public class Selection {
    static String answer(JSONObject question) throws Exception {
        return JSON.toJSONString(question.containsKey("hash") ? hash(question) : select(question),
            SerializerFeature.WriteMapNullValue, SerializerFeature.DisableCircularReferenceDetect);
    }

    private static Object hash(JSONObject question) {
        List<MessageQueue> queues = new ArrayList<>();
        for (int i = 0; i < question.getIntValue("queues"); i++) {
            queues.add(new MessageQueue("topic", "broker", i));
        }
        try {
            return new SelectMessageQueueByHash().select(queues, null, question.get("hash")).getQueueId();
        } catch (RuntimeException refused) {
            return null;
        }
    }

    private static Object select(JSONObject question) throws Exception {
        TopicPublishInfo info = publishInfo(question);
        JSONArray answer = new JSONArray();
        answer.add(info.isOrderTopic());
        answer.add(queues(info));
        if (!info.ok()) {
            return answer;
        }
        MQFaultStrategy strategy = newStrategy();
        strategy.setSendLatencyFaultEnable(true);
        for (Object each : question.getJSONArray("steps")) {
            JSONObject step = (JSONObject) each;
            setItems(strategy, step.getJSONArray("items"));
            setIndex(info.getSendWhichQueue(), step.getInteger("index"));
            setIndex(worst(strategy), step.getInteger("which_item_worst"));
            JSONArray listed = names(strategy);
            strategy.setSendLatencyFaultEnable(question.getBooleanValue("fault_avoidance"));
            MessageQueue mq = selectOneMessageQueue(strategy, info, step);
            strategy.setSendLatencyFaultEnable(true);
            JSONObject said = new JSONObject(true);
            said.put("listed", listed);
            said.put("queue", describe(mq));
            said.put("index", getIndex(info.getSendWhichQueue()));
            said.put("which_item_worst", getIndex(worst(strategy)));
            said.put("queues", queues(info));
            said.put("items", names(strategy));
            answer.add(said);
        }
        return answer;
    }

    private static MessageQueue selectOneMessageQueue(MQFaultStrategy strategy, TopicPublishInfo info, JSONObject step)
        throws Exception {
        Method select = method(MQFaultStrategy.class, "selectOneMessageQueue");
        return (MessageQueue) (select.getParameterCount() == 3
            ? select.invoke(strategy, info, step.getString("last"), step.getBooleanValue("reset"))
            : select.invoke(strategy, info, step.getString("last")));
    }

    private static TopicPublishInfo publishInfo(JSONObject question) throws Exception {
        Object route = newOf("TopicRouteData");
        List<Object> queueDatas = new ArrayList<>();
        List<Object> brokerDatas = new ArrayList<>();
        for (Object each : question.getJSONArray("queue_datas")) {
            JSONArray row = (JSONArray) each;
            Object data = newOf("QueueData");
            invoke(data, "setBrokerName", row.getString(0));
            invoke(data, "setReadQueueNums", row.getIntValue(1));
            invoke(data, "setWriteQueueNums", row.getIntValue(2));
            invoke(data, "setPerm", row.getIntValue(3));
            queueDatas.add(data);
            HashMap<Long, String> addrs = new HashMap<>();
            addrs.put(question.getJSONArray("masters").contains(row.getString(0)) ? 0L : 1L, "127.0.0.1:10911");
            Object broker = newOf("BrokerData");
            invoke(broker, "setBrokerName", row.getString(0));
            invoke(broker, "setBrokerAddrs", addrs);
            brokerDatas.add(broker);
        }
        invoke(route, "setQueueDatas", queueDatas);
        invoke(route, "setBrokerDatas", brokerDatas);
        invoke(route, "setOrderTopicConf", question.getString("order_topic_conf"));
        return (TopicPublishInfo) method(MQClientInstance.class, "topicRouteData2TopicPublishInfo")
            .invoke(null, "topic", route);
    }

    private static Object newOf(String name) throws Exception {
        try {
            return Class.forName("org.apache.rocketmq.common.protocol.route." + name).getConstructor().newInstance();
        } catch (ClassNotFoundException newer) {
            return Class.forName("org.apache.rocketmq.remoting.protocol.route." + name).getConstructor().newInstance();
        }
    }

    private static MQFaultStrategy newStrategy() throws Exception {
        java.lang.reflect.Constructor<?> made = MQFaultStrategy.class.getConstructors()[0];
        for (java.lang.reflect.Constructor<?> each : MQFaultStrategy.class.getConstructors()) {
            made = each.getParameterCount() == 3 ? each : made;
        }
        if (made.getParameterCount() == 0) {
            return (MQFaultStrategy) made.newInstance();
        }
        return (MQFaultStrategy) made.newInstance(new org.apache.rocketmq.client.ClientConfig(), null, null);
    }

    private static void setItems(MQFaultStrategy strategy, JSONArray wanted) throws Exception {
        if (wanted == null) {
            return;
        }
        Map<String, Object> table = table(strategy);
        table.clear();
        long now = System.currentTimeMillis();
        Method update = method(MQFaultStrategy.class, "updateFaultItem");
        for (Object each : wanted) {
            JSONArray row = (JSONArray) each;
            if (update.getParameterCount() == 4) {
                update.invoke(strategy, row.getString(0), row.getLongValue(1), false, row.getBooleanValue(3));
            } else {
                update.invoke(strategy, row.getString(0), row.getLongValue(1), false);
            }
            Object item = table.get(row.getString(0));
            field(item, "startTimestamp").setLong(item, now + row.getLongValue(2));
        }
    }

    private static JSONArray names(MQFaultStrategy strategy) throws Exception {
        JSONArray names = new JSONArray();
        names.addAll(table(strategy).keySet());
        return names;
    }

    private static JSONArray queues(TopicPublishInfo info) {
        JSONArray queues = new JSONArray();
        for (MessageQueue mq : info.getMessageQueueList()) {
            queues.add(describe(mq));
        }
        return queues;
    }

    private static JSONArray describe(MessageQueue mq) {
        JSONArray described = new JSONArray();
        described.add(mq.getBrokerName());
        described.add(mq.getQueueId());
        return described;
    }

    private static ThreadLocalIndex worst(MQFaultStrategy strategy) throws Exception {
        return (ThreadLocalIndex) get(get(strategy, "latencyFaultTolerance"), "whichItemWorst");
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> table(MQFaultStrategy strategy) throws Exception {
        return (Map<String, Object>) get(get(strategy, "latencyFaultTolerance"), "faultItemTable");
    }

    @SuppressWarnings("unchecked")
    private static void setIndex(ThreadLocalIndex of, Integer index) throws Exception {
        if (index != null) {
            ((ThreadLocal<Integer>) get(of, "threadLocalIndex")).set(index);
        }
    }

    @SuppressWarnings("unchecked")
    private static Integer getIndex(ThreadLocalIndex of) throws Exception {
        return ((ThreadLocal<Integer>) get(of, "threadLocalIndex")).get();
    }

    private static Object get(Object of, String name) throws Exception {
        return field(of, name).get(of);
    }

    private static Field field(Object of, String name) throws Exception {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    private static void invoke(Object of, String name, Object argument) throws Exception {
        try {
            method(of.getClass(), name).invoke(of, argument);
        } catch (InvocationTargetException thrown) {
            throw (Exception) thrown.getCause();
        }
    }

    private static Method method(Class<?> of, String name) {
        for (Method method : of.getDeclaredMethods()) {
            if (method.getName().equals(name)) {
                method.setAccessible(true);
                return method;
            }
        }
        throw new IllegalStateException(of + " has no " + name);
    }
}
