import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.common.ThreadLocalIndex;
import org.apache.rocketmq.client.latency.MQFaultStrategy;

/**
 * MQFaultStrategy and LatencyFaultToleranceImpl as the release on the class path answers for them.
 *
 * The clock cannot be set, so time goes by moving start timestamps back ("pass": ms), and every time in an answer is
 * relative to now, with "slop" the ms that went by while the question was answered. FaultItems are
 * [name, current_latency, start_timestamp - now, reachable].
 */
public class Fault {
    private static final boolean HAS_REACHABLE = hasReachable();

    static String answer(JSONObject question) throws Exception {
        switch (question.getString("ask")) {
            case "duration":
                return String.valueOf(invoke(newStrategy(), "computeNotAvailableDuration", question.getLongValue("latency")));
            case "index":
                return index(question.getIntValue("index"));
            case "update":
                return update(question.getJSONArray("steps"));
            case "order":
                return order(question.getJSONArray("items"));
            default:
                return pick(question);
        }
    }

    private static String index(int index) throws Exception {
        ThreadLocalIndex kept = new ThreadLocalIndex();
        setIndex(kept, index);
        Method increment = method(kept.getClass(), "incrementAndGet", "getAndIncrement");
        return increment.invoke(kept) + " " + getIndex(kept);
    }

    private static String update(JSONArray steps) throws Exception {
        long began = System.currentTimeMillis();
        MQFaultStrategy strategy = newStrategy();
        for (int i = 0; i < steps.size(); i++) {
            JSONObject step = steps.getJSONObject(i);
            pass(strategy, step.getLongValue("pass"));
            updateFaultItem(strategy, step.getString("name"), step.getLongValue("latency"),
                step.getBooleanValue("isolation"), step.getBooleanValue("reachable"));
        }
        JSONObject answer = new JSONObject(true);
        long now = System.currentTimeMillis();
        JSONArray items = new JSONArray();
        for (Object item : table(strategy).values()) {
            items.add(describe(item, now, invoke(item, "isAvailable")));
        }
        answer.put("items", items);
        answer.put("slop", now - began);
        return answer.toJSONString();
    }

    private static String order(JSONArray wanted) throws Exception {
        MQFaultStrategy strategy = newStrategy();
        List<Comparable> items = new ArrayList<>();
        setItems(strategy, wanted);
        for (int i = 0; i < wanted.size(); i++) {
            items.add((Comparable) table(strategy).get(wanted.getJSONArray(i).getString(0)));
        }
        Collections.sort(items);
        JSONArray names = new JSONArray();
        for (Object item : items) {
            names.add(get(item, "name"));
        }
        return names.toJSONString();
    }

    /** "listed" is the hash table's order; "picked" what each of "calls" calls gave, all from the same index. */
    private static String pick(JSONObject question) throws Exception {
        MQFaultStrategy strategy = newStrategy();
        setItems(strategy, question.getJSONArray("items"));
        Object tolerance = get(strategy, "latencyFaultTolerance");
        JSONObject answer = new JSONObject(true);
        answer.put("listed", listed(strategy));
        JSONArray picked = new JSONArray();
        for (int i = 0; i < question.getIntValue("calls"); i++) {
            setIndex(worst(strategy), question.getIntValue("index"));
            try {
                picked.add(invoke(tolerance, "pickOneAtLeast"));
            } catch (IndexOutOfBoundsException thrown) {
                picked.add("!");
            }
        }
        answer.put("picked", picked);
        answer.put("kept", getIndex(worst(strategy)));
        return JSON.toJSONString(answer, SerializerFeature.WriteMapNullValue);
    }

    // What the questions about selection need as well.

    static MQFaultStrategy newStrategy() throws Exception {
        MQFaultStrategy strategy;
        if (HAS_REACHABLE) {
            Class<?> config = Class.forName("org.apache.rocketmq.client.ClientConfig");
            Class<?> resolver = Class.forName("org.apache.rocketmq.client.latency.Resolver");
            Class<?> detector = Class.forName("org.apache.rocketmq.client.latency.ServiceDetector");
            strategy = MQFaultStrategy.class.getConstructor(config, resolver, detector)
                .newInstance(config.getConstructor().newInstance(), null, null);
        } else {
            strategy = MQFaultStrategy.class.getConstructor().newInstance();
        }
        strategy.setSendLatencyFaultEnable(true);
        return strategy;
    }

    static void updateFaultItem(MQFaultStrategy strategy, String name, long latency, boolean isolation,
        boolean reachable) throws Exception {
        if (HAS_REACHABLE) {
            method(MQFaultStrategy.class, "updateFaultItem").invoke(strategy, name, latency, isolation, reachable);
        } else {
            method(MQFaultStrategy.class, "updateFaultItem").invoke(strategy, name, latency, isolation);
        }
    }

    static void setItems(MQFaultStrategy strategy, JSONArray wanted) throws Exception {
        table(strategy).clear();
        long now = System.currentTimeMillis();
        for (int i = 0; i < wanted.size(); i++) {
            JSONArray item = wanted.getJSONArray(i);
            updateFaultItem(strategy, item.getString(0), item.getLongValue(1), false, item.getBooleanValue(3));
            field(table(strategy).get(item.getString(0)), "startTimestamp")
                .setLong(table(strategy).get(item.getString(0)), now + item.getLongValue(2));
        }
    }

    static JSONArray listed(MQFaultStrategy strategy) throws Exception {
        JSONArray names = new JSONArray();
        names.addAll(table(strategy).keySet());
        return names;
    }

    static ThreadLocalIndex worst(MQFaultStrategy strategy) throws Exception {
        return (ThreadLocalIndex) get(get(strategy, "latencyFaultTolerance"), "whichItemWorst");
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> table(MQFaultStrategy strategy) throws Exception {
        return (Map<String, Object>) get(get(strategy, "latencyFaultTolerance"), "faultItemTable");
    }

    @SuppressWarnings("unchecked")
    static void setIndex(ThreadLocalIndex of, int index) throws Exception {
        ((ThreadLocal<Integer>) get(of, "threadLocalIndex")).set(index);
    }

    @SuppressWarnings("unchecked")
    static Integer getIndex(ThreadLocalIndex of) throws Exception {
        return ((ThreadLocal<Integer>) get(of, "threadLocalIndex")).get();
    }

    static Object get(Object of, String name) throws Exception {
        return field(of, name).get(of);
    }

    static Object invoke(Object of, String name, Object... arguments) throws Exception {
        try {
            return method(of.getClass(), name).invoke(of, arguments);
        } catch (InvocationTargetException thrown) {
            throw (Exception) thrown.getCause();
        }
    }

    static Method method(Class<?> of, String... names) {
        for (String name : names) {
            for (Method method : of.getDeclaredMethods()) {
                if (method.getName().equals(name)) {
                    method.setAccessible(true);
                    return method;
                }
            }
        }
        throw new IllegalStateException(of + " has no " + names[0]);
    }

    private static Field field(Object of, String name) throws Exception {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    private static void pass(MQFaultStrategy strategy, long milliseconds) throws Exception {
        for (Object item : table(strategy).values()) {
            Field start = field(item, "startTimestamp");
            if (start.getLong(item) != 0) {
                start.setLong(item, start.getLong(item) - milliseconds);
            }
        }
    }

    private static JSONArray describe(Object item, long now, Object available) throws Exception {
        long start = (Long) get(item, "startTimestamp");
        JSONArray described = new JSONArray();
        described.add(get(item, "name"));
        described.add(get(item, "currentLatency"));
        described.add(start == 0 ? null : start - now);
        described.add(HAS_REACHABLE ? get(item, "reachableFlag") : Boolean.TRUE);
        described.add(available);
        return described;
    }

    private static boolean hasReachable() {
        try {
            Class.forName("org.apache.rocketmq.client.latency.Resolver");
            return true;
        } catch (ClassNotFoundException old) {
            return false;
        }
    }
}
