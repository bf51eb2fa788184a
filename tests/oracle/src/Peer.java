import java.io.*;
import java.net.*;
import java.nio.ByteBuffer;

/** One raw connection to a broker: frames out, frames in. A close by the broker is an answer like any other. */
final class Peer implements Closeable {
    /** Neither an answer nor a close within this time. */
    static final int PATIENCE_MS = 20_000;

    private final Socket socket = new Socket();
    private final DataInputStream in;

    Peer(InetSocketAddress address) throws IOException {
        socket.connect(address, 5_000);
        socket.setTcpNoDelay(true);
        socket.setSoTimeout(PATIENCE_MS);
        in = new DataInputStream(new BufferedInputStream(socket.getInputStream(), 1 << 16));
    }

    void send(ByteBuffer frame) throws IOException {
        ByteBuffer sized = ByteBuffer.allocate(4 + frame.remaining());
        sized.putInt(frame.remaining()).put(frame.duplicate());
        sendBytes(sized.array());
    }

    void sendBytes(byte[] bytes) throws IOException {
        try {
            socket.getOutputStream().write(bytes);
        } catch (SocketException closedMeanwhile) {
            // The next receive tells.
        }
    }

    /** The next frame without its length, or null when the broker closed the connection. */
    ByteBuffer receive() throws IOException {
        try {
            int size = in.readInt();
            if (size < 0 || size > 200 << 20) throw new IllegalStateException("answer of " + size + " bytes");
            byte[] frame = new byte[size];
            in.readFully(frame);
            return ByteBuffer.wrap(frame);
        } catch (EOFException | SocketException closed) {
            return null;
        }
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
