import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * One JVM that answers for every class beside this one which has a static answer(JSONObject).
 *
 * A question is a line of stdin: the class's name, a space and the JSON. Each is answered, in order, by a line of stdout
 * that begins with "= "; what others print goes to stderr. The end of stdin ends the JVM, and so does a question that
 * throws, with its stack trace.
 */
public class Oracle {
    private static final Map<String, Method> ANSWERS = new HashMap<>();

    public static void main(String[] args) {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        try {
            BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = questions.readLine(); line != null; line = questions.readLine()) {
                int space = line.indexOf(' ');
                answers.println("= " + answer(line.substring(0, space), line.substring(space + 1)));
            }
            System.exit(0);
        } catch (InvocationTargetException thrown) {
            thrown.getCause().printStackTrace();
        } catch (Throwable thrown) {
            thrown.printStackTrace();
        }
        System.exit(1);
    }

    private static Object answer(String name, String question) throws Exception {
        Method answer = ANSWERS.get(name);
        if (answer == null) {
            answer = Class.forName(name).getDeclaredMethod("answer", JSONObject.class);
            ANSWERS.put(name, answer);
        }
        return answer.invoke(null, JSON.parseObject(question));
    }
}
