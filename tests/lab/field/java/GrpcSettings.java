import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;

/** What every gRPC client is told: the proxy's address, TLS or none, and its keys. */
class GrpcSettings {
    private GrpcSettings() {
    }

    static ClientConfiguration of(JSONObject spec) {
        ClientConfigurationBuilder settings = ClientConfiguration.newBuilder()
            .setEndpoints(spec.getString("name_server"))
            .enableSsl(spec.getBooleanValue("tls"));
        if (!spec.getString("access_key").isEmpty()) {
            settings.setCredentialProvider(new StaticSessionCredentialsProvider(
                spec.getString("access_key"), spec.getString("secret_key")));
        }
        return settings.build();
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
