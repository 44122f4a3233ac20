/** What a hung listener stands before, deaf to interrupts: closed by "hang", opened by "unhang". */
class Gate {
    private boolean isOpen = true;

    synchronized void set(boolean open) {
        isOpen = open;
        notifyAll();
    }

    /** Returns when the gate is open. */
    synchronized void pass() {
        boolean isInterrupted = false;
        while (!isOpen) {
            try {
                wait();
            } catch (InterruptedException unheard) {
                isInterrupted = true;
            }
        }
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
