import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.impl.producer.DefaultMQProducerImpl;
import org.apache.rocketmq.client.impl.producer.TopicPublishInfo;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.ServiceState;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RemotingClient;
import org.apache.rocketmq.remoting.exception.RemotingConnectException;
import org.apache.rocketmq.remoting.exception.RemotingSendRequestException;
import org.apache.rocketmq.remoting.exception.RemotingTimeoutException;
import org.apache.rocketmq.remoting.exception.RemotingTooMuchRequestException;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * DefaultMQProducerImpl.sendDefaultImpl as the release on the class path runs it, with DefaultMQProducer's own settings.
 *
 * Everything below RemotingClient is played by "script": per try {"name": response code or exception, "ms": it takes}.
 * A question has timeout, detector, brokers and those "without_address".
 * Three queues a broker. The answer: the tries' [broker, timeout], the end [name, response code], and the FaultItems
 * [broker, start_timestamp - now, reachable].
 */
public class Send {
    private final JSONObject question;
    private final Iterator<Object> script;
    private final JSONArray tries = new JSONArray();
    private Object[] end;

    private Send(JSONObject question) {
        this.question = question;
        this.script = question.getJSONArray("script").iterator();
    }

    static String answer(JSONObject question) throws Exception {
        return new Send(question).run();
    }

    private String run() throws Exception {
        DefaultMQProducerImpl impl = producer();
        long began = System.currentTimeMillis();
        Message message = new Message("topic", new byte[] {1});
        long timeout = question.getLongValue("timeout");
        try {
            end = told(impl.send(message, timeout));
        } catch (Exception thrown) {
            end = told(thrown);
        }
        long now = System.currentTimeMillis();
        JSONArray items = new JSONArray();
        Object tolerance = get(get(impl, "mqFaultStrategy"), "latencyFaultTolerance");
        for (Map.Entry<?, ?> each : ((Map<?, ?>) get(tolerance, "faultItemTable")).entrySet()) {
            long start = (Long) get(each.getValue(), "startTimestamp");
            JSONArray item = new JSONArray();
            item.add(each.getKey());
            item.add(start == 0 ? null : start - now);
            item.add(hasField(each.getValue(), "reachableFlag") ? get(each.getValue(), "reachableFlag") : Boolean.TRUE);
            items.add(item);
        }
        JSONObject answer = new JSONObject(true);
        answer.put("tries", tries);
        answer.put("end", end);
        answer.put("items", items);
        answer.put("slop", now - began);
        return JSON.toJSONString(answer, SerializerFeature.WriteMapNullValue);
    }

    private DefaultMQProducerImpl producer() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("producers");
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(question.getIntValue("timeout"));
        producer.setSendLatencyFaultEnable(true);
        DefaultMQProducerImpl impl = producer.getDefaultMQProducerImpl();
        callIfPresent(get(impl, "mqFaultStrategy"), "setStartDetectorEnable", question.getBooleanValue("detector"));
        impl.setServiceState(ServiceState.RUNNING);
        Map<String, HashMap<Long, String>> addresses = new ConcurrentHashMap<>();
        set(impl, "mQClientFactory", instance(producer, addresses));
        TopicPublishInfo info = new TopicPublishInfo();
        for (Object broker : question.getJSONArray("brokers")) {
            if (!question.getJSONArray("without_address").contains(broker)) {
                addresses.put((String) broker, new HashMap<>(Collections.singletonMap(0L, (String) broker)));
            }
            for (int i = 0; i < 3; i++) {
                info.getMessageQueueList().add(new MessageQueue("topic", (String) broker, i));
            }
        }
        info.setHaveTopicRouterInfo(true);
        impl.getTopicPublishInfoTable().put("topic", info);
        return impl;
    }

    /** A client without Netty: its constructors would open a selector a question. */
    private Object instance(DefaultMQProducer producer, Map<String, HashMap<Long, String>> addresses) throws Exception {
        Field theUnsafe = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
        theUnsafe.setAccessible(true);
        Object unsafe = theUnsafe.get(null);
        Method allocate = unsafe.getClass().getMethod("allocateInstance", Class.class);
        Object api = allocate.invoke(unsafe, MQClientAPIImpl.class);
        set(api, "remotingClient", Proxy.newProxyInstance(
            Send.class.getClassLoader(), new Class<?>[] {RemotingClient.class}, new Network()));
        set(api, "clientConfig", producer.cloneClientConfig());
        Object instance = allocate.invoke(unsafe, MQClientInstance.class);
        set(instance, "mQClientAPIImpl", api);
        set(instance, "clientConfig", producer.cloneClientConfig());
        set(instance, "brokerAddrTable", addresses);
        if (hasField(instance, "topicEndPointsTable")) {
            set(instance, "topicEndPointsTable", new ConcurrentHashMap<>());
        }
        return instance;
    }

    /** RemotingClient.invokeSync(addr, request, timeout), answered by the script. */
    private class Network implements InvocationHandler {
        @Override
        public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
            if (!method.getName().startsWith("invoke")) {
                return null;
            }
            tries.add(new JSONArray(List.of(arguments[0], arguments[2])));
            JSONObject outcome = (JSONObject) script.next();
            Thread.sleep(outcome.getIntValue("ms"));
            return response(outcome);
        }
    }

    private static RemotingCommand response(JSONObject outcome) throws Exception {
        if (!(outcome.get("name") instanceof Integer)) {
            throw exception(outcome.getString("name"));
        }
        RemotingCommand response = RemotingCommand.createResponseCommand(outcome.getIntValue("name"), "scripted");
        HashMap<String, String> fields = new HashMap<>();
        fields.put("msgId", "id");
        fields.put("queueId", "0");
        fields.put("queueOffset", "0");
        response.setExtFields(fields);
        return response;
    }

    private static Exception exception(String name) {
        switch (name) {
            case "RemotingConnectException":
                return new RemotingConnectException("scripted");
            case "RemotingSendRequestException":
                return new RemotingSendRequestException("scripted");
            case "RemotingTimeoutException":
                return new RemotingTimeoutException("scripted");
            case "RemotingTooMuchRequestException":
                return new RemotingTooMuchRequestException("scripted");
            default:
                return new InterruptedException("scripted");
        }
    }

    private static Object[] told(SendResult result) {
        return new Object[] {result.getSendStatus().name(), null};
    }

    private static Object[] told(Throwable thrown) {
        Integer code = thrown instanceof MQBrokerException ? Integer.valueOf(((MQBrokerException) thrown).getResponseCode())
            : thrown instanceof MQClientException ? Integer.valueOf(((MQClientException) thrown).getResponseCode()) : null;
        return new Object[] {thrown.getClass().getSimpleName(), code};
    }

    private static void callIfPresent(Object of, String name, Object argument) throws Exception {
        for (Method method : of.getClass().getMethods()) {
            if (method.getName().equals(name)) {
                method.invoke(of, argument);
            }
        }
    }

    private static boolean hasField(Object of, String name) {
        for (Field field : of.getClass().getDeclaredFields()) {
            if (field.getName().equals(name)) {
                return true;
            }
        }
        return false;
    }

    private static Object get(Object of, String name) throws Exception {
        return field(of, name).get(of);
    }

    private static void set(Object of, String name, Object value) throws Exception {
        field(of, name).set(of, value);
    }

    private static Field field(Object of, String name) throws Exception {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }
}
