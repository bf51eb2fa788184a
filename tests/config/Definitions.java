import java.util.List;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints Kafka's public config keys, a line each: scope, name, type, default, rule, synonyms, dynamic. */
public class Definitions {
    static final String NONE = "<none>";

    static void print(String scope, ConfigDef definitions) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(definitions.configKeys()).values()) {
            if (key.internalConfig) continue;
            String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null;
            List<?> synonyms = scope.equals("topic")
                ? ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.getOrDefault(key.name, List.of()).stream()
                    .map(synonym -> synonym.name()).collect(Collectors.toList())
                : List.of();
            System.out.println(String.join("\t", scope, key.name, key.type.toString(),
                value == null ? NONE : value,
                key.validator == null ? "" : key.validator.toString(),
                synonyms.toString().replaceAll("[\\[\\] ]", ""),
                Boolean.toString(scope.equals("broker") && DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS.contains(key.name))));
        }
    }

    public static void main(String[] args) {
        print("topic", LogConfig.configDefCopy());
        print("broker", kafka.server.KafkaConfig.configDef());
    }
}
