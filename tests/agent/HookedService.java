import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Field;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.producer.DefaultMQProducerImpl;
import org.apache.rocketmq.client.latency.MQFaultStrategy;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * A service with a producer and a consumer that BalancewatchHook was added to, as its page says. A question to it
 * (tests/lab/oracle/Oracle.java) has `ask`:
 *
 * start               on `name_server`, `kafka` and `topic`
 * send, async         `count` messages; how many were taken
 * faults              the producer's FaultItems: broker to when it is available
 * consumed, dropped   counts
 * producer_id, consumer_id
 * close               closes the hook; the clients go on
 * stop                ends it
 */
public class HookedService {
    private static HookedService service;

    private final DefaultMQProducer producer = new DefaultMQProducer("hooked");
    private final DefaultMQPushConsumer consumer;
    private final String topic;
    private final BalancewatchHook hook;
    private final AtomicInteger consumed = new AtomicInteger();

    private HookedService(String nameServer, String kafka, String topic) throws Exception {
        this.topic = topic;
        hook = new BalancewatchHook("DefaultCluster", kafka, new Properties());

        producer.setNamesrvAddr(nameServer);
        producer.setSendLatencyFaultEnable(true);
        producer.setSendMsgTimeout(2_000);
        producer.setRetryTimesWhenSendFailed(1);
        hook.addTo(producer);
        producer.start();

        consumer = new DefaultMQPushConsumer("g-" + topic);
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            consumed.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        hook.addTo(consumer);
        consumer.start();
    }

    static Object answer(JSONObject question) throws Exception {
        switch (question.getString("ask")) {
            case "start":
                service = new HookedService(
                    question.getString("name_server"), question.getString("kafka"), question.getString("topic"));
                return "started";
            case "send":
                return service.send(question.getIntValue("count"));
            case "async":
                return service.sendAsync(question.getIntValue("count"));
            case "faults":
                return service.faults();
            case "consumed":
                return service.consumed.get();
            case "producer_id":
                return service.producer.buildMQClientId();
            case "consumer_id":
                return service.consumer.buildMQClientId();
            case "dropped":
                return service.hook.dropped();
            case "close":
                service.hook.close();
                return "closed";
            default:
                service.producer.shutdown();
                service.consumer.shutdown();
                service.hook.close();
                return "stopped";
        }
    }

    private int send(int count) {
        int taken = 0;
        for (int i = 0; i < count; i++) {
            try {
                producer.send(new Message(topic, new byte[10]));
                taken++;
            } catch (Exception refused) {
                refused.printStackTrace();
            }
        }
        return taken;
    }

    private int sendAsync(int count) throws Exception {
        AtomicInteger taken = new AtomicInteger();
        CountDownLatch ended = new CountDownLatch(count);
        for (int i = 0; i < count; i++) {
            producer.send(new Message(topic, new byte[10]), new SendCallback() {
                @Override
                public void onSuccess(SendResult sendResult) {
                    taken.incrementAndGet();
                    ended.countDown();
                }

                @Override
                public void onException(Throwable refused) {
                    refused.printStackTrace();
                    ended.countDown();
                }
            });
        }
        ended.await();
        return taken.get();
    }

    private JSONObject faults() throws Exception {
        Object strategy = field(DefaultMQProducerImpl.class, "mqFaultStrategy", producer.getDefaultMQProducerImpl());
        Object tolerance = field(MQFaultStrategy.class, "latencyFaultTolerance", strategy);
        JSONObject faults = new JSONObject();
        for (Object item : ((Map<?, ?>) field(tolerance.getClass(), "faultItemTable", tolerance)).values()) {
            faults.put((String) field(item.getClass(), "name", item), field(item.getClass(), "startTimestamp", item));
        }
        return faults;
    }

    private static Object field(Class<?> owner, String name, Object of) throws Exception {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }
}
