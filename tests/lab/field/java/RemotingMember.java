import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.netty.NettyRemotingAbstract;

/** What clients of the remoting protocol share: settings by name, their MQClientInstance, and what it knows. */
abstract class RemotingMember implements Member {
    protected final JSONObject spec;
    protected final String[] topics;
    /** The hook of this client's own, which counts nothing where another client made the MQClientInstance. */
    protected final RemotingRequests ownRequests;

    RemotingMember(JSONObject spec) {
        this.spec = spec;
        topics = spec.getJSONArray("topics").toArray(new String[0]);
        ownRequests = new RemotingRequests(spec.getBooleanValue("mute"));
    }

    protected abstract MQClientInstance instance();

    @Override
    public String clientId() {
        return instance().getClientId();
    }

    protected void configure(ClientConfig config) throws Exception {
        config.setNamesrvAddr(spec.getString("name_server"));
        config.setClientIP(spec.getString("client_ip"));
        if (!spec.getString("instance_name").isEmpty()) {
            config.setInstanceName(spec.getString("instance_name"));
        }
        config.setHeartbeatBrokerInterval(spec.getIntValue("heartbeat_ms"));
        config.setPollNameServerInterval(spec.getIntValue("route_poll_ms"));
        config.setPersistConsumerOffsetInterval(spec.getIntValue("persist_ms"));
        for (Map.Entry<String, Object> option : spec.getJSONObject("options").entrySet()) {
            if (!RemotingStrategies.OPTIONS.contains(option.getKey())) {
                set(config, option.getKey(), option.getValue());
            }
        }
    }

    /** Calls the setter of a Java property. Throws IllegalArgumentException where there is none. */
    private static void set(Object target, String property, Object value) throws Exception {
        String name = "set" + Character.toUpperCase(property.charAt(0)) + property.substring(1);
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == 1) {
                method.invoke(target, converted(value, method.getParameterTypes()[0]));
                return;
            }
        }
        throw new IllegalArgumentException(target.getClass().getSimpleName() + " has no " + name);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Object converted(Object value, Class<?> type) {
        if (type.isEnum()) {
            return Enum.valueOf((Class<Enum>) type, value.toString());
        }
        if (type == int.class) {
            return ((Number) value).intValue();
        }
        return type == long.class ? ((Number) value).longValue() : value;
    }

    @Override
    public void describe(JSONObject line, MachineClock clock) throws Exception {
        JSONObject routes = new JSONObject(true);
        for (String topic : routedTopics()) {
            routes.put(topic, route(topic));
        }
        line.put("routes", routes);
        JSONArray heartbeats = new JSONArray();
        Map<String, String> names = brokerNames();
        requests().heartbeats.forEach((address, at) -> {
            JSONObject row = new JSONObject(true);
            row.put("broker_name", names.getOrDefault(address, address));
            row.put("address", address);
            row.put("at", at);
            heartbeats.add(row);
        });
        line.put("heartbeats", heartbeats);
    }

    protected Iterable<String> routedTopics() {
        return java.util.Arrays.asList(topics);
    }

    private JSONObject route(String topic) {
        JSONObject queues = new JSONObject(true);
        var known = instance().getAnExistTopicRouteData(topic);
        if (known != null) {
            for (var data : known.getQueueDatas()) {
                queues.put(data.getBrokerName(), data.getReadQueueNums());
            }
        }
        return queues;
    }

    /** Broker names by address, masters and slaves alike. */
    protected Map<String, String> brokerNames() throws Exception {
        Map<String, String> names = new HashMap<>();
        Map<String, Map<Long, String>> table = field(MQClientInstance.class, "brokerAddrTable", instance());
        table.forEach((name, addresses) -> addresses.values().forEach(address -> names.put(address, name)));
        return names;
    }

    /** The hook of the MQClientInstance. */
    protected RemotingRequests requests() throws Exception {
        Object remoting = field(MQClientAPIImpl.class, "remotingClient", instance().getMQClientAPIImpl());
        List<RPCHook> hooks = field(NettyRemotingAbstract.class, "rpcHooks", remoting);
        for (RPCHook hook : hooks) {
            if (hook instanceof RemotingRequests) {
                return (RemotingRequests) hook;
            }
        }
        throw new IllegalStateException("the MQClientInstance has no hook of ours");
    }

    @SuppressWarnings("unchecked")
    static <T> T field(Class<?> owner, String name, Object of) throws Exception {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return (T) field.get(of);
    }
}
