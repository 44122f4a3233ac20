import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
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
 * A service with a producer and a consumer that BalancewatchHook was added to, as its page says. Arguments: NameServer,
 * Kafka, cluster, topic, group. A line of stdin is a question, a line of stdout its answer:
 *
 * send N, async N     how many were taken, and the ms of the slowest
 * faults              the producer's FaultItems: broker to when it is available
 * consumed, dropped   counts
 * consumer_id         the consumer's ClientId; the producer's is the first line
 * close               closes the hook; the clients go on
 */
public class HookedService {
    private final DefaultMQProducer producer = new DefaultMQProducer("hooked");
    private final DefaultMQPushConsumer consumer;
    private final String topic;
    private final BalancewatchHook hook;
    private final AtomicInteger consumed = new AtomicInteger();

    private HookedService(String nameServer, String kafka, String cluster, String topic, String group)
        throws Exception {
        this.topic = topic;
        hook = new BalancewatchHook(cluster, kafka, new Properties());

        producer.setNamesrvAddr(nameServer);
        producer.setSendLatencyFaultEnable(true);
        producer.setSendMsgTimeout(2_000);
        producer.setRetryTimesWhenSendFailed(1);
        hook.addTo(producer);
        producer.start();

        consumer = new DefaultMQPushConsumer(group);
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

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        Thread.currentThread().setUncaughtExceptionHandler((thread, failure) -> {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1); // a client that is half started would keep the JVM
        });
        HookedService service = new HookedService(args[0], args[1], args[2], args[3], args[4]);
        answers.println(service.producer.buildMQClientId());
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] parts = line.split(" ");
            answers.println(service.answer(parts[0], parts.length > 1 ? Integer.parseInt(parts[1]) : 0));
        }
        Runtime.getRuntime().halt(0);
    }

    private Object answer(String question, int count) throws Exception {
        switch (question) {
            case "send":
                return send(count);
            case "async":
                return sendAsync(count);
            case "faults":
                return faults();
            case "consumed":
                return consumed.get();
            case "consumer_id":
                return consumer.buildMQClientId();
            case "dropped":
                return hook.dropped();
            default:
                hook.close();
                return "closed";
        }
    }

    private String send(int count) {
        int taken = 0;
        long slowest = 0;
        for (int i = 0; i < count; i++) {
            long began = System.nanoTime();
            try {
                producer.send(new Message(topic, new byte[10]));
                taken++;
            } catch (Exception refused) {
                refused.printStackTrace();
            }
            slowest = Math.max(slowest, TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began));
        }
        return taken + " " + slowest;
    }

    private String sendAsync(int count) throws Exception {
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
        return taken + " 0";
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
