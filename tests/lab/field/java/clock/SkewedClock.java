import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;
import jdk.internal.org.objectweb.asm.ClassReader;
import jdk.internal.org.objectweb.asm.ClassVisitor;
import jdk.internal.org.objectweb.asm.ClassWriter;
import jdk.internal.org.objectweb.asm.MethodVisitor;
import jdk.internal.org.objectweb.asm.Opcodes;

/**
 * RocketMQ's wall clock in this JVM: every System.currentTimeMillis() of its classes is so many ms ahead. An agent; its
 * argument is the ms. Timers go by System.nanoTime and are left alone, as on a machine whose clock is off.
 *
 * (libfaketime makes each timed wait of a JVM 17 return at once.)
 */
public class SkewedClock {
    private static final String OF_ROCKETMQ = "org/apache/rocketmq/";

    private static long skewMillis;

    private SkewedClock() {
    }

    public static void premain(String argument, Instrumentation instrumentation) {
        skewMillis = Long.parseLong(argument);
        instrumentation.addTransformer(new ClassFileTransformer() {
            @Override
            public byte[] transform(
                ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] bytes) {
                return name != null && name.startsWith(OF_ROCKETMQ) ? skewed(bytes) : null;
            }
        });
    }

    public static long currentTimeMillis() {
        return System.currentTimeMillis() + skewMillis;
    }

    private static byte[] skewed(byte[] bytes) {
        ClassReader reader = new ClassReader(bytes);
        ClassWriter writer = new ClassWriter(reader, 0);
        reader.accept(new ClassVisitor(Opcodes.ASM8, writer) {
            @Override
            public MethodVisitor visitMethod(
                int access, String name, String descriptor, String signature, String[] exceptions) {
                return new Calls(super.visitMethod(access, name, descriptor, signature, exceptions));
            }
        }, 0);
        return writer.toByteArray();
    }

    private static class Calls extends MethodVisitor {
        Calls(MethodVisitor next) {
            super(Opcodes.ASM8, next);
        }

        @Override
        public void visitMethodInsn(int opcode, String owner, String name, String descriptor, boolean isInterface) {
            boolean isClock = owner.equals("java/lang/System") && name.equals("currentTimeMillis");
            super.visitMethodInsn(opcode, isClock ? "SkewedClock" : owner, name, descriptor, isInterface);
        }
    }
}
