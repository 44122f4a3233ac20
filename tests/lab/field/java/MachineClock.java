/** The machine's clock. RocketMQ's own may be another in this JVM: what its classes say is set right here. */
class MachineClock {
    private final long skewMillis;

    MachineClock(double skewSeconds) {
        skewMillis = (long) (skewSeconds * 1000);
    }

    /** A time that one of RocketMQ's classes took by its clock; 0 stays 0. */
    long of(long millis) {
        return millis == 0 ? 0 : millis - skewMillis;
    }
}
