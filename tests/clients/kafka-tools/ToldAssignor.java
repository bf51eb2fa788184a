import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.RangeAssignor;

/** The range assignor, telling on standard output what a console consumer is given: nothing else shows it in order. */
public final class ToldAssignor extends RangeAssignor {
    private String owned = "";

    @Override
    public void onAssignment(Assignment assignment, ConsumerGroupMetadata metadata) {
        System.out.println("REVOKED\t" + owned);
        owned = assignment.partitions().stream().map(place -> String.valueOf(place.partition())).collect(Collectors.joining(","));
        System.out.println("ASSIGNED\t" + owned);
    }
}
