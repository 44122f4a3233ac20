import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.client.apis.ClientConfiguration;

/** The settings of every gRPC client: the proxy's address, without TLS. */
class GrpcSettings {
    private GrpcSettings() {
    }

    static ClientConfiguration of(JSONObject spec) {
        return ClientConfiguration.newBuilder().setEndpoints(spec.getString("name_server")).enableSsl(false).build();
    }

    /** `host@pid@index@nanoTime`, which the API does not tell. */
    static String clientId(Object client) {
        for (Class<?> of = client.getClass(); of != null; of = of.getSuperclass()) {
            try {
                var field = of.getDeclaredField("clientId");
                field.setAccessible(true);
                return field.get(client).toString();
            } catch (NoSuchFieldException above) {
                continue;
            } catch (IllegalAccessException impossible) {
                throw new IllegalStateException(impossible);
            }
        }
        throw new IllegalStateException(client.getClass() + " has no clientId");
    }
}
