import com.alibaba.fastjson.JSONObject;

/** A consumer or producer of any kind, as FieldClient commands it and TruthLog asks it. */
interface Member {
    void start() throws Exception;

    /** A clean shutdown. */
    void stop() throws Exception;

    String clientId();

    void command(String verb, String arguments) throws Exception;

    /** Puts into `line` what the client holds now. `clock` sets right what RocketMQ's classes say of time. */
    void describe(JSONObject line, MachineClock clock) throws Exception;
}
